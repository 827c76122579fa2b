// Learn: three short stories. Each step is a figure of numbers that this server sends.

import { Dial, logChart } from "./charts.js";
import { posted } from "./given.js";
import { Heatmap } from "./heatmap.js";
import { TableSource } from "./sources.js";
import { announce, fill, frequenciesAt, h, json, partsOf, whole } from "./lib.js";
import stories from "./stories.json" with { type: "json" };

const FREQUENCIES = "/rope/frequencies?head_dim=128&rope_theta=500000";
const TRAINED = 8192;
const ROTATIONS = ["/rope/apply?layout=half", "/rope/apply?layout=interleaved"];
/** A vector of ones at 33 positions. */
const ONES = JSON.stringify({ x: Array(33).fill(Array(8).fill(1)) });

/** Return the numbers at some URLs; a body is posted to each. */
const dataOf = (urls, body) =>
  Promise.all(urls.map(async (url) => (await json(url, body && posted(body), "data")).data));

/** Return the vectors of a pair by position, of one table or two, with a slider over positions. */
function dial(pair, tables, start, axes) {
  const steps = tables[0].length - 1;
  const shown = new Dial((fraction) => show(Math.round(fraction * steps)));
  const show = (at) => {
    const vectors = tables.map((table) => ({ cosine: table[at][0], sine: table[at][1] }));
    const radius = Math.hypot(...tables[0][0]);
    const place = { position: whole(at), fraction: at / steps, steps };
    shown.show({ pair, ...place, radius, vectors, axes });
    shown.title.textContent = `Pair ${pair} at position ${whole(at)}`;
  };
  show(start);
  return () => shown.element;
}

/** By name: what gets the numbers of a step, and returns what draws its figure. */
const FIGURES = {
  async turning({ urls, position }) {
    const tables = (await dataOf(urls)).map((rows) => rows.map((pairs) => pairs[20]));
    return dial(20, tables, position);
  },

  async growing({ urls, caption }) {
    // The decimals of JSON as the float32 that they stand for: differences of these are exact.
    const tables = (await dataOf(urls)).map((rows) => rows.map((row) => row.map(Math.fround)));
    const [exact, ...others] = tables;
    const most = (row, at) => Math.max(...row.map((value, to) => Math.abs(value - exact[at][to])));
    const series = others.map((rows, each) => ({ values: rows.map(most), series: each }));
    const names = { label: caption, axis: "n, of position 2ⁿ" };
    return (width, height) => logChart({ series, width, height, ...names });
  },

  async scaling({ rule, caption }) {
    const urls = [FREQUENCIES + rule, FREQUENCIES];
    const [after, before] = await Promise.all(urls.map((url) => frequenciesAt(url)));
    const series = [{ values: after.wavelength }, { values: before.wavelength, series: 2 }];
    const lines = [{ value: TRAINED, text: `trained on ${whole(TRAINED)} positions` }];
    return (width, height) => logChart({ series, lines, width, height, label: caption });
  },

  async packed({ urls }, app) {
    const panel = async (url) => {
      const about = await app.describe(url);
      const { pack } = about.parameters;
      return { source: new TableSource(about), label: pack, name: pack };
    };
    const map = new Heatmap();
    const panels = await Promise.all(urls.map(panel));
    map.show({ panels, isUpright: true, range: [-1, 1] });
    return () => map.element;
  },

  async rotated({ position, caption }) {
    const [a, b] = (await dataOf(ROTATIONS, ONES)).map((rows) => rows[position]);
    const parts = partsOf("rotated");
    parts.element.ariaLabel = caption;
    const cell = (value, at) =>
      h("td", { class: value !== a[at] && "differs" }, value.toFixed(4).replace("-", "−"));
    parts.half.append(...a.map(cell));
    parts.interleaved.append(...b.map(cell));
    return () => parts.element;
  },

  async paired({ position }) {
    const rotated = await dataOf(ROTATIONS, ONES);
    const tables = rotated.map((rows) => rows.map((row) => [row[1], row[5]]));
    return dial(1, tables, position, ["channel 1", "channel 5"]);
  },
};

export class LearnView {
  constructor(app) {
    Object.assign(this, { app }, partsOf("learn"));
    this.press = (event) => {
      const link = { ArrowLeft: this.back, ArrowRight: this.next }[event.key];
      if (link && !link.hidden && !event.target.closest("input, canvas, .numbers")) link.click();
    };
    new ResizeObserver(() => this.draw()).observe(this.figure);
  }

  async show(place) {
    document.addEventListener("keydown", this.press);
    const steps = stories.flatMap(({ steps: all, ...story }) =>
      all.map((step, at) => {
        const url = `/#view=learn&story=${story.name}&step=${at + 1}`;
        return { ...story, ...step, url, number: `${at + 1} of ${all.length}` };
      }),
    );
    const own = steps.filter(({ name }) => name === place.view.get("story"));
    const step = own[Number(place.view.get("step")) - 1] ?? own[0] ?? steps[0];
    const drawing = await FIGURES[step.figure](step, this.app);
    if (place !== this.app.place) return;
    const link = ({ name, short }) => h("a", { href: `/#view=learn&story=${name}` }, short);
    if (!this.links.firstChild) fill(this.links, stories.map(link));
    for (const each of this.links.children)
      each.ariaCurrent = each.textContent === step.short ? "page" : null;
    for (const name of ["title", "text", "caption", "number"]) this[name].textContent = step[name];
    const lead = (way, url) => Object.assign(way, { hidden: !url, href: url ?? "/" });
    lead(this.back, steps[steps.indexOf(step) - 1]?.url);
    lead(this.next, steps[steps.indexOf(step) + 1]?.url);
    lead(this.see, step.see);
    this.drawing = drawing;
    this.draw();
    announce(`${step.title}, ${step.number}: ${step.text}`);
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.figure;
    if (this.drawing && width) this.figure.replaceChildren(this.drawing(width, height));
  }

  close() {
    document.removeEventListener("keydown", this.press);
  }
}
