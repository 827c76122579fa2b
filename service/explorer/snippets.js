// "Copy as": programs that fetch the table on the page, a link, the numbers in sight, a picture.

import { axisTicks } from "./charts.js";
import { copied, copyText, h, real, request, showText } from "./lib.js";

// What the programs call the types of elements. Floats of two bytes are printed as their bits.
const NAMES = ["size", "struct", "script", "go", "rust", "cast", "accessor", "ctype", "format"];
const TYPES = {
  float32: [4, "f", "Float32", "float32", "f32", "", "Float", "float", "%.9g"],
  float64: [8, "d", "Float64", "float64", "f64", "", "Double", "double", "%.17g"],
  float16: [2, "H", "Uint16", "uint16", "u16", "(int) ", "Char", "uint16_t", "%u"],
  int32: [4, "i", "Int32", "int32", "i32", "", "Int", "int32_t", "%d"],
  int64: [8, "q", "BigInt64", "int64", "i64", "", "Long", "int64_t", "%ld"],
};
TYPES.bfloat16 = TYPES.float16;
TYPES.complex64 = TYPES.float32;
TYPES.complex128 = TYPES.float64;

/** Return the text of a program that prints the first numbers of three rows of a table. */
export function program(template, url, dtype, shape) {
  const values = Object.fromEntries(NAMES.map((name, at) => [name, TYPES[dtype][at]]));
  values.row = shape.slice(1).reduce((a, b) => a * b, dtype.startsWith("complex") ? 2 : 1);
  values.columns = Math.min(values.row, 8);
  values.url = url;
  const bits = values.size === 2 ? `, read as the bits of ${dtype}` : "";
  values.about = `${shape.join(" × ")}, ${dtype}, little-endian, rows in order${bits}`;
  const isName = new RegExp(`\\$(${Object.keys(values).join("|")})`, "g");
  return template.replace(isName, (_, name) => values[name]);
}

const WHOLE_BYTES = 256e6;

/** A button with a menu: what a view shows as a program, a link, numbers or a picture. */
export class CopyMenu {
  /** @param {{description: object, pane: object}} view the view, and what it shows */
  constructor(app, view) {
    this.app = app;
    this.view = view;
    this.element = copied("copy").firstElementChild;
    [this.button, this.menu] = this.element.children;
    this.items = [...this.menu.children];
    this.button.addEventListener("click", () => this.toggle(this.menu.hidden));
    this.menu.addEventListener("click", (event) => this.run(event.target.textContent));
    this.element.addEventListener("keydown", (event) => this.move(event));
    this.element.addEventListener("focusout", (event) => {
      if (!this.element.contains(event.relatedTarget)) this.toggle(false);
    });
  }

  toggle(isOpen) {
    this.menu.hidden = !isOpen;
    this.button.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.items[0].focus();
  }

  move(event) {
    const at = this.items.indexOf(document.activeElement);
    const last = this.items.length - 1;
    const targets = { ArrowDown: at + 1, ArrowUp: at < 0 ? last : at - 1, Home: 0, End: last };
    if (event.key === "Escape" && !this.menu.hidden) {
      this.toggle(false);
      this.button.focus();
    } else if (event.key in targets) {
      this.toggle(true);
      this.items[(targets[event.key] + last + 1) % (last + 1)].focus();
    } else return;
    event.preventDefault();
  }

  async run(name) {
    const others = { Link: "link", Numbers: "numbers", Picture: "picture" };
    this.toggle(false);
    this.button.focus();
    try {
      await this[others[name.split(" ")[0]] ?? "program"](name);
    } catch (error) {
      showText(name, error.message);
    }
  }

  /** Copy the program for the table; for the rows in sight, where the table is large. */
  async program(name) {
    const { description, pane } = this.view;
    const { arrays, view } = description;
    const { path, query } = this.app.place;
    let url = `${path}.bin?${query}`;
    if (view.parts.length && !/\bpart=/.test(query)) url += `&part=${pane.source.part}`;
    let { shape, dtype } = arrays[0];
    if (arrays[0].bytes > WHOLE_BYTES) {
      const sight = pane.window("bin");
      [url, shape, dtype] = [sight.url, [sight.rows.count, sight.columns.count], view.dtype];
    }
    const texts = await (await request(new URL("programs.txt", import.meta.url))).text();
    const template = texts.split(/^== /m).find((each) => each.startsWith(`${name}\n`));
    const text = program(
      template.slice(name.length + 1),
      new URL(url, location).href,
      dtype,
      shape,
    );
    await this.copy(name, text);
  }

  async link() {
    this.app.write();
    await this.copy("Link", location.href);
  }

  async numbers() {
    const { url } = this.view.pane.window("csv");
    const response = await request(url, { headers: { Accept: "text/csv" } });
    await this.copy("Numbers", await response.text());
  }

  async picture() {
    const sheet = picture(this.view.pane, decodeURI(this.app.place.url));
    const blob = await new Promise((resolve) => sheet.toBlob(resolve));
    const link = h("a", { href: URL.createObjectURL(blob), download: "posref.png" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    this.app.announce("The picture is saved.");
  }

  async copy(name, text) {
    if (!(await copyText(name, text))) return;
    this.app.announce(`${name} copied.`);
    this.button.firstChild.textContent = "Copied";
    setTimeout(() => (this.button.firstChild.textContent = "Copy as"), 1500);
  }
}

/** Return a map as it is drawn, under its address and with its axes, as a canvas. */
function picture({ heatmap, source, bar }, title) {
  const { canvas, field, x, y, isUpright, scale } = heatmap;
  const ratio = canvas.width / field.clientWidth;
  const [left, top, right, bottom] = [80, 32, 20, 44];
  const width = field.clientWidth + left + right;
  const height = field.clientHeight + top + bottom;
  const sheet = h("canvas", { width: width * ratio, height: height * ratio });
  const context = sheet.getContext("2d");
  const { color, fontFamily } = getComputedStyle(document.body);
  context.scale(ratio, ratio);
  context.fillStyle = getComputedStyle(document.documentElement).backgroundColor;
  context.fillRect(0, 0, width, height);
  context.drawImage(canvas, left, top, field.clientWidth, field.clientHeight);
  context.fillStyle = color;
  context.font = `12px ${fontFamily}`;
  const write = (text, align, ...place) => {
    context.textAlign = align;
    context.fillText(text, ...place);
  };
  const [across, down] = isUpright ? [source.rows, source.columns] : [source.columns, source.rows];
  write(title, "left", left, 20, width - left - right);
  write(`${down.axis} ↓`, "right", left - 8, 20);
  write(real(scale.low, 3), "right", left + 34, height - 8);
  context.drawImage(bar, left + 40, height - 17, 96, 9);
  write(real(scale.high, 3), "left", left + 142, height - 8);
  write(`${across.axis} →`, "right", width - right, height - 8);
  for (const box of heatmap.boxes()) {
    for (const tick of axisTicks(y, down, box.height / 40))
      write(tick.text, "right", left - 8, top + box.top + tick.fraction * box.height + 4);
    for (const tick of axisTicks(x, across, box.width / 110))
      write(tick.text, "center", left + box.left + tick.fraction * box.width, height - 26);
  }
  return sheet;
}
