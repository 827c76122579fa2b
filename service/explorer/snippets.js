// "Copy as": programs that fetch the table on the page, a link, the numbers in sight, a picture.

import { axisTicks } from "./charts.js";
import { Problem, copyText, h, key, partsOf, real, request, saveAs } from "./lib.js";

/** Return the program that prints first numbers: of ‹with a key¦without›, what the page has. */
async function program(language, url, { shape, dtype }, partly) {
  const texts = await (await request(new URL("programs.txt", import.meta.url))).text();
  const section = (name) => texts.split(`== ${name}\n`)[1].split(/^== /m)[0];
  const [names, ...rows] = section("types")
    .split("\n")
    .map((each) => each.split(/ +/));
  const type = rows.find(([name]) => name === dtype);
  const values = Object.fromEntries(names.map((name, at) => [name, type[at]]));
  const row = shape.slice(1).reduce((a, b) => a * b, dtype.startsWith("complex") ? 2 : 1);
  const bits = values.size === "2" ? `, read as the bits of ${dtype}` : "";
  const parts = [shape.join(" × "), dtype, "little-endian, rows in order", ...partly];
  const about = parts.join(", ") + bits;
  Object.assign(values, { row, url, about, columns: Math.min(row, 8) });
  const text = section(language).replace(/‹([^¦›]*)¦?([^›]*)›/g, key ? "$1" : "$2");
  return text.replace(/\$([a-z]+)/g, (name, own) => values[own] ?? name);
}

const WHOLE_BYTES = 256e6;

/** A button with a menu: what a view shows as a program, a link, numbers or a picture. */
export class CopyMenu {
  /** @param {{description: object, pane: object}} view the view, and what it shows */
  constructor(app, view) {
    Object.assign(this, { app, view }, partsOf("copy"));
    this.menu.onclick = ({ target }) => this.run(target);
    this.menu.ontoggle = ({ newState }) => {
      const names = ["Numbers in sight (CSV)", ...this.partly()];
      this.menu.querySelector("[value=numbers]").textContent = names.join(", ");
      if (newState === "open" && !this.menu.matches(":focus-within"))
        this.menu.firstElementChild.focus();
    };
    this.element.onkeydown = (event) => this.move(event);
    this.menu.addEventListener("focusout", ({ relatedTarget }) => {
      if (!this.element.contains(relatedTarget)) this.menu.hidePopover();
    });
  }

  /** Return in words at which strides a window has rows and columns. */
  partly() {
    const { pane, description } = this.view;
    const partly = (each) => description.view[each].parameter && pane.heatmap[each].partly;
    return ["rows", "columns"].map(partly).filter(Boolean);
  }

  /** Put the focus on another item; the menu opens and closes as popovers do. */
  move(event) {
    const items = [...this.menu.children];
    const at = items.indexOf(document.activeElement);
    const next = { ArrowDown: at + 1, ArrowUp: at < 0 ? -1 : at - 1, Home: 0, End: -1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.menu.showPopover();
    items.at(next % items.length).focus();
  }

  /** Do what an item of the menu says. */
  async run({ value, textContent: name }) {
    if (!value) return;
    this.menu.hidePopover();
    if (value === "picture") await this.save();
    else await copyText(name, await this[value](name), this.button);
  }

  /** Return the program for the table; for the rows in sight, where the table is large. */
  async program(language) {
    const { description, pane } = this.view;
    const { arrays, view } = description;
    const { path, query } = this.app.place;
    let url = `${path}.bin?${query}`;
    if (view.parts.length && !/\bpart=/.test(query)) url += `&part=${pane.source.part}`;
    const isLarge = arrays[0].bytes > WHOLE_BYTES;
    if (isLarge) url = pane.window("bin").url;
    const [array] = (await this.app.describe(url)).arrays;
    return program(language, new URL(url, location).href, array, isLarge ? this.partly() : []);
  }

  link() {
    this.app.write();
    return location.href;
  }

  async numbers() {
    const { url, rows, columns } = this.view.pane.window("csv");
    const { arrays, view } = this.view.description;
    const { axis, parameter } = view.leading ?? { axis: "row of tokens" };
    const isGrid = view.grid && !view.leading && arrays[0].shape.length > 2;
    if (isGrid || (view.leading && !parameter)) {
      const detail = `CSV has 2 axes and this table more: no parameter selects one ${axis} alone.`;
      throw new Problem(0, { title: "Nothing to copy", detail });
    }
    const body = await (await request(url, { headers: { Accept: "text/csv" } })).text();
    const labels = (name, window) => {
      const axis = this.view.pane.source[name];
      // Where no parameter selects rows or columns, all of them are there.
      const all = { start: 0n, count: Number(axis.count), stride: 1 };
      const { start, count, stride } = view[name].parameter ? window : all;
      return Array.from({ length: count }, (_, at) => axis.at(start + BigInt(at * stride)));
    };
    const names = labels("rows", rows);
    const lines = body.trimEnd().split("\n");
    const head = [view.rows.axis, ...labels("columns", columns)];
    return [head, ...lines.map((line, at) => [names[at], line])].join("\n");
  }

  async save() {
    const sheet = picture(this.view.pane, decodeURI(this.app.place.url));
    saveAs("posref.png", await new Promise((resolve) => sheet.toBlob(resolve)));
  }
}

/** Return a map as it is drawn, under its address and with its axes, as a canvas. */
function picture({ heatmap, bar }, title) {
  const { canvas, field, x, y, scale } = heatmap;
  const ratio = canvas.width / field.clientWidth;
  const [left, top, right, bottom] = [80, 32, 20, 44];
  const [width, height] = [field.clientWidth + left + right, field.clientHeight + top + bottom];
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
  write(title, "left", left, 20, width - left - right);
  write(`${y.labels.axis} ↓`, "right", left - 8, 20);
  write(real(scale.low, 3), "right", left + 34, height - 8);
  context.drawImage(bar, left + 40, height - 17, 96, 9);
  write(real(scale.high, 3), "left", left + 142, height - 8);
  write(`${x.labels.axis} →`, "right", width - right, height - 8);
  for (const box of heatmap.boxes()) {
    for (const tick of axisTicks(y, box.height / 40))
      write(tick.text, "right", left - 8, top + box.top + tick.fraction * box.height + 4);
    for (const tick of axisTicks(x, box.width / 110))
      write(tick.text, "center", left + box.left + tick.fraction * box.width, height - 26);
  }
  return sheet;
}
