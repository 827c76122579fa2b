// Learn: three short stories. Each step is a figure of numbers that this server sends.

import { Dial, logChart } from "./charts.js";
import { Heatmap } from "./heatmap.js";
import { TableSource } from "./sources.js";
import { h, json, real, whole } from "./lib.js";

const EXACT = "/rope?head_dim=128&rope_theta=500000&pack=concat";
const FREQUENCIES = "/rope/frequencies?head_dim=128&rope_theta=500000";
const TRAINED = 8192;
const FAR = Array.from({ length: 18 }, (_, exponent) => 2 ** exponent);
const LAYOUTS = ["half", "interleaved"];

/** Return the rows of a whole table, with its source. */
async function tableAt(app, url) {
  const source = new TableSource(await app.describe(url));
  const [height, width] = [Number(source.rows.count), Number(source.columns.count)];
  const [rows, columns] = [height, width].map((count) => ({ start: 0n, count, stride: 1 }));
  const numbers = await source.read(rows, columns);
  const row = (_, at) => numbers.subarray(at * width, (at + 1) * width);
  return { source, rows: Array.from({ length: height }, row) };
}

/** Return a pair of two lists of rows as vectors at a position, with a slider over the others. */
function dial(pair, [cosine, sine], lists, start, axes) {
  const steps = lists[0].length - 1;
  const shown = new Dial((fraction) => show(Math.round(fraction * steps)));
  const show = (at) => {
    const vectors = lists.map((rows) => ({ cosine: rows[at][cosine], sine: rows[at][sine] }));
    const radius = Math.hypot(lists[0][0][cosine], lists[0][0][sine]);
    const place = { position: whole(at), fraction: at / steps, steps };
    shown.show({ pair, ...place, radius, vectors, axes });
    shown.title.textContent = `Pair ${pair} at position ${whole(at)}`;
  };
  show(start);
  return [() => shown.element, {}];
}

/** Return a vector of ones at 33 positions, rotated in each layout. */
function rotations() {
  const body = JSON.stringify({ x: Array(33).fill(Array(8).fill(1)) });
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body };
  const rotated = async (layout) => (await json(`/rope/apply?layout=${layout}`, options)).data;
  return Promise.all(LAYOUTS.map(rotated));
}

/** By name: what gets the numbers of a step, and returns the figure and facts for its text. */
const FIGURES = {
  async turning({ position }, app) {
    const urls = [EXACT, EXACT.replace("500000", "10000")].map((url) => `${url}&seq_len=65`);
    const [a, b] = await Promise.all(urls.map((url) => tableAt(app, url)));
    return dial(20, a.source.channels.columnsOf(20), [a.rows, b.rows], position);
  },

  async growing({ urls, caption }, app) {
    const all = [EXACT, ...urls].map((url) => tableAt(app, `${url}&positions=${FAR}`));
    const [exact, ...others] = (await Promise.all(all)).map(({ rows }) => rows);
    const most = (row, at) => Math.max(...row.map((value, to) => Math.abs(value - exact[at][to])));
    const series = others.map((rows, each) => ({ values: rows.map(most), series: each }));
    const axis = "position, as a power of 2";
    const draw = (width, height) => logChart({ series, width, height, label: caption, axis });
    const facts = {};
    series.forEach(({ values }, each) =>
      values.forEach((value, at) => (facts[`${each}:${at}`] = real(value, 2))),
    );
    return [draw, facts];
  },

  async scaling({ rule, caption }) {
    const answers = await Promise.all([json(FREQUENCIES), json(FREQUENCIES + rule)]);
    const [before, after] = answers.map(({ data }) => data.wavelength);
    const series = [{ values: after }, { values: before, series: 2 }];
    const lines = [{ value: TRAINED, text: `trained on ${whole(TRAINED)} positions` }];
    const draw = (width, height) => logChart({ series, lines, width, height, label: caption });
    const times = after.map((value, pair) => value / before[pair]);
    const facts = {
      pairs: before.length,
      slow: before.filter((value) => value > TRAINED).length,
      fastest: real(after[0]),
      most: real(times.at(-1), 3),
      kept: times.filter((each) => each < 1.001).length,
      stretched: times.filter((each) => each > 15.99).length,
      attention: real(answers[1].data.attention_factor[0]),
    };
    return [draw, facts];
  },

  async packed({ packs }, app) {
    const urls = packs.map((pack) => `/rope?head_dim=32&seq_len=64&pack=${pack}&part=cos`);
    const descriptions = await Promise.all(urls.map((url) => app.describe(url)));
    const panel = (each, at) => ({
      source: new TableSource(each),
      label: packs[at],
      name: packs[at],
    });
    const map = new Heatmap();
    map.show({ panels: descriptions.map(panel), isUpright: true, range: [-1, 1] });
    return [() => map.element, {}];
  },

  async rotated({ position, caption }) {
    const [a, b] = (await rotations()).map((rows) => rows[position]);
    const cell = (value, at) =>
      h("td", { class: value !== a[at] && "differs" }, value.toFixed(4).replace("-", "−"));
    const row = (values, at) =>
      h("tr", {}, h("th", { scope: "row" }, LAYOUTS[at]), values.map(cell));
    const heads = ["channel", ...a.keys()].map((head) => h("th", { scope: "col" }, head));
    const body = h("tbody", {}, [a, b].map(row));
    const frame = { class: "numbers", tabindex: "0", role: "region", "aria-label": caption };
    const element = h("div", frame, h("table", {}, h("thead", {}, h("tr", {}, heads)), body));
    return [() => element, { wrong: a.filter((value, at) => value !== b[at]).length }];
  },

  async paired({ position }) {
    return dial(1, [1, 5], await rotations(), position, ["channel 1", "channel 5"]);
  },
};

/** The view. */
export class LearnView {
  constructor(app) {
    this.app = app;
    this.stories = json(new URL("./stories.json", import.meta.url));
    this.links = h("nav", { "aria-label": "Stories" });
    this.title = h("h1", {});
    this.text = h("p", { class: "lead" });
    this.figure = h("div", { class: "figure" });
    this.caption = h("figcaption", {});
    this.count = h("span", { class: "muted" });
    this.back = h("a", { class: "button outlined" }, "Back");
    this.next = h("a", { class: "button primary" }, "Next");
    this.see = h("a", { class: "button outlined" }, "Open the tables");
    const steps = { "aria-label": "Steps" };
    const ways = h("nav", steps, this.back, this.count, this.see, this.next);
    const parts = [this.links, this.title, this.text, h("figure", {}, this.caption, this.figure)];
    this.element = h("article", { class: "learn" }, parts, ways);
    this.press = (event) => {
      const link = { ArrowLeft: this.back, ArrowRight: this.next }[event.key];
      if (link && !link.hidden && !event.target.closest("input, canvas, .numbers")) link.click();
    };
    new ResizeObserver(() => this.draw()).observe(this.figure);
  }

  async show({ view }) {
    document.addEventListener("keydown", this.press);
    const turn = (this.turn = {});
    const stories = await this.stories;
    const all = stories.flatMap((each) => each.steps.map((_, at) => ({ story: each, at })));
    const urlOf = ({ story: each, at }) => `/#view=learn&story=${each.name}&step=${at + 1}`;
    const asked = stories.find(({ name }) => name === view.get("story")) ?? stories[0];
    const last = asked.steps.length - 1;
    const at = Math.min(Math.max(Math.trunc(Number(view.get("step"))) || 1, 1) - 1, last);
    const step = asked.steps[at];
    const [drawing, facts] = await FIGURES[step.figure](step, this.app);
    if (turn !== this.turn) return;
    const link = (story) => {
      const current = story === asked && "page";
      return h("a", { href: urlOf({ story, at: 0 }), "aria-current": current }, story.short);
    };
    this.links.replaceChildren(...stories.map(link));
    this.title.textContent = asked.title;
    this.text.textContent = step.text.replace(/\{([\w:]+)\}/g, (_, fact) => facts[fact]);
    this.caption.textContent = step.caption;
    this.count.textContent = `${at + 1} of ${last + 1}`;
    const index = all.findIndex((each) => each.story === asked && each.at === at);
    const [before, after] = [all[index - 1], all[index + 1]].map((each) => each && urlOf(each));
    const ways = [before, after, step.see];
    [this.back, this.next, this.see].forEach((each, way) =>
      Object.assign(each, { hidden: !ways[way], href: ways[way] ?? "/" }),
    );
    this.drawing = drawing;
    this.draw();
    this.app.announce(`${asked.title}, ${this.count.textContent}: ${this.text.textContent}`);
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.figure;
    if (this.drawing && width) this.figure.replaceChildren(this.drawing(width, height));
  }

  close() {
    document.removeEventListener("keydown", this.press);
  }
}
