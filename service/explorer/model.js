// The model view: what describes a model at the left, its positional encodings at the right.

import { shapeText } from "./arrays.js";
import { logChart } from "./charts.js";
import {
  Description,
  button,
  code,
  details,
  givenIn,
  list,
  muted,
  pageOf,
  paragraph,
  posted,
  refused,
} from "./given.js";
import { copied, h, json, whole } from "./lib.js";
import { edit } from "./post.js";

const ROPE = "rotary embedding";
const KINDS = {
  rope: ROPE,
  "rope-axial": `${ROPE} on several axes`,
  none: `no ${ROPE}`,
  alibi: "ALiBi",
};
const FACTS = ["counts", "reason", "stored", "resize", "not_resized", "source"];
const ASSUMED = "its code is not known here, and what follows is from the config alone.";

const joined = (...texts) => texts.filter(Boolean).join(" · ");
const part = (...children) => h("section", { class: "part" }, children);

function listed(value) {
  const text = Array.isArray(value) ? value.join(", ") : JSON.stringify(value).replaceAll('"', "");
  return text.length > 80 ? `${text.slice(0, 60)} … (${value.length ?? text.length})` : text;
}

/** Return layers in words, with runs of them as ranges. */
function layersText({ all, only = [], type } = {}) {
  const ends = only.filter((each, at) => only[at + 1] !== each + 1);
  const starts = only.filter((each, at) => only[at - 1] !== each - 1);
  const ranges = starts.map((each, at) => (each === ends[at] ? each : `${each}–${ends[at]}`));
  return joined(type, all ? `all ${all} layers` : ranges.length && `layers ${ranges.join(", ")}`);
}

/** Return where a value is from: pointers as code, anything else in words. */
function origin({ origin: name, from = [] }) {
  const pointers = from.filter((each) => each.startsWith("/"));
  const words = from.filter((each) => !pointers.includes(each) && !each.startsWith(name));
  const text = h("span", { class: "muted" }, [name, ...words].join(": "), " ");
  return [name === "config" ? "" : text, pointers.map((each) => [code(each), " "])];
}

/** Return a table of values by name; nothing of none. */
function table(heads, values = {}, cells) {
  const head = heads.map((each) => h("th", { scope: "col" }, each));
  const row = ([name, value]) => {
    const others = cells(value).map((each) => h("td", {}, each));
    return h("tr", {}, h("th", { scope: "row" }, code(name)), others);
  };
  const rows = Object.entries(values).map(row);
  const body = [h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)];
  const props = { class: "scroll", tabindex: "0", role: "group", "aria-label": heads.join(", ") };
  return rows.length > 0 && h("div", props, h("table", {}, body));
}

/** Return the name of the model, what is known of it, and its warnings. */
function modelHead({ model_type, knowledge, format, warnings, reason, weights, read, ...report }) {
  const { library, status } = knowledge;
  const text = library ? `${status} by ${library}` : status;
  const known = h("b", { class: status === "known" ? "good" : "doubt" }, text);
  const seen = read && joined(...Object.entries(read).map((each) => each.join(" ")));
  const warned = warnings.map(({ detail, pointer }) => [detail, " ", code(pointer)]);
  const keys = (text, all) => all.length > 0 && paragraph(`${text}: `, code(all.join(" ")));
  return [
    h("h1", {}, model_type ?? format.name),
    muted(known, ` · ${format.name}, found by `, code(format.found_by)),
    [reason, weights, seen && `Read: ${seen}`].map((each) => each && paragraph(each)),
    list("warning", warned),
    keys("Without effect", report.unread),
    keys("Not understood", report.not_understood),
  ];
}

/** Return what an engine must be told. */
function engine([name, { source, cannot = [], caches = [], ...told }]) {
  const link = (each) => (part) => [h("a", { href: each[`${part}_cache`] }, part), " "];
  const limits = cannot.map((each) => `It cannot express ${each}`);
  const files = caches.map((each) => paragraph(`${each.id} `, ["cos", "sin"].map(link(each))));
  const text = h("pre", { tabindex: "0" }, JSON.stringify(told, null, 2));
  return details(name, list("warning", limits), text, files, muted(source));
}

/** Return what differs between two models, and where each value is from. */
function difference({ verdict, reason, encodings, epsilon, ...report }) {
  const sides = ({ a, b }) =>
    [a, b].map((each) => each && [listed(each.value), h("br"), origin(each)]);
  const pair = ({ a, b, result, first_position: first, channels, ...each }) => {
    const where = first === null ? "at no position" : `from position ${first} on`;
    const far = first !== undefined && `more than ${epsilon} apart ${where}`;
    return [
      h("h2", {}, `${a} and ${b}: ${result}`),
      muted(joined(layersText(each.layers), far, channels && `channels ${channels}`, each.reason)),
      table(["Differs", "First", "Second"], each.values, sides),
      table(["Written otherwise", "First", "Second"], each.also_spelled_differently, sides),
    ];
  };
  const only = (text, all) => {
    const ids = all.map(({ id, layers }) => joined(id, layersText(layers)));
    return ids.map((each) => paragraph(`Only in the ${text}: ${each}`));
  };
  const head = [h("h1", {}, `Two models: ${verdict}`), reason && paragraph(reason)];
  const rest = [only("first", report.only_in_a), only("second", report.only_in_b)];
  return part(head, encodings.map(pair), rest);
}

/** The view. */
export class ModelView {
  constructor(app) {
    this.app = app;
    this.element = copied("model").firstElementChild;
    this.form = this.element.querySelector("form");
    this.found = this.element.querySelector(".found");
    this.empty = this.found.firstElementChild;
    const changed = () => this.read();
    const parts = [...this.element.querySelectorAll(".description")];
    [this.one, this.other] = parts.map((each) => new Description(each, changed));
    this.form.onchange = changed;
    this.form.onsubmit = (event) => event.preventDefault();
    for (const each of this.element.querySelectorAll(".tries button"))
      each.onclick = () => this.one.set(JSON.stringify(JSON.parse(each.value), null, 2));
  }

  async show() {}

  close() {}

  /** Read what is given and show the report; a later call ends this one. */
  async read() {
    this.reading?.abort();
    const { signal } = (this.reading = new AbortController());
    const { content, type } = this.one;
    if (!content) return this.found.replaceChildren(this.empty);
    try {
      const sent = json(`/model?${givenIn(this.form)}`, posted(content, signal, type));
      const compared = this.other.content && this.compare(signal).then(difference, refused);
      const report = await sent;
      const parts = report.encodings.map((each) => this.encoding(each, signal));
      const engines = Object.entries(report.engines).map(engine);
      const told = engines.length > 0 && part(h("h2", {}, "What engines must be told"), engines);
      const shown = [await compared, modelHead(report), parts, told];
      if (signal.aborted) return;
      this.found.replaceChildren(...shown.flat(2).filter(Boolean));
      this.app.announce(`${report.model_type ?? "Model"}: ${parts.length} encodings`);
    } catch (error) {
      if (!signal.aborted) this.found.replaceChildren(refused(error));
    }
  }

  async compare(signal) {
    const [a, b] = [this.one, this.other].map(({ type, content }) => {
      if (typeof content !== "string") throw new Error("Two models are compared as JSON only.");
      return type === "application/json" ? content : JSON.stringify(content);
    });
    return json("/model/diff", posted(`{"a": ${a}, "b": ${b}}`, signal));
  }

  /** Return the part of the report about an encoding. */
  encoding(encoding, signal) {
    const { id, kind, at, layout, layers, shape, links = {}, post, position_ids: ids } = encoding;
    const pairs = layout && `layout ${layout}`;
    const page = pageOf(links.table ?? "");
    const open = post
      ? button("Open the table", () => edit(this.app, page, post), "primary")
      : h("a", { class: "primary button", href: page }, "Open the table");
    const chart = links.frequencies && h("div", { class: "chart-card" });
    if (chart) this.draw(chart, encoding, signal);
    const fact = (name) => [h("dt", {}, name.replace("_", " ")), h("dd", {}, encoding[name])];
    const facts = FACTS.filter((name) => encoding[name]).map(fact);
    const number = ids?.post && button("Number tokens", () => edit(this.app, ids.url, ids.post));
    const files = Object.entries(links)
      .filter(([name]) => name !== "table" && name !== "apply")
      .map(([name, href]) => h("a", { href }, name));
    const cells = (each) => [listed(each.value), origin(each)];
    const title = h("h2", {}, h("span", {}, KINDS[kind] ?? kind.replace("-", " ")), " ", code(id));
    return part(
      h("div", { class: "label" }, title, links.table && open),
      muted(joined(layersText(layers), pairs, shape && shapeText(shape)), " ", code(at)),
      !encoding.known && h("p", { class: "warning" }, h("b", {}, "Not known: "), ASSUMED),
      chart,
      table(["Parameter", "Value", "From"], encoding.values, cells),
      facts.length > 0 && h("dl", {}, facts),
      ids && paragraph(`Position ids: ${ids.rule ?? "not known"}.`),
      h("p", { class: "tries" }, post ? [] : files, number),
    );
  }

  /** Draw the wavelengths after and before scaling, with the trained length. */
  async draw(chart, { id, links, post, regimes, values }, signal) {
    const read = async ({ frequencies, post: body }) => {
      const options = body ? posted(JSON.stringify(body), signal) : { signal };
      return (await json(frequencies, options)).data.wavelength;
    };
    try {
      const about = `/describe?url=${encodeURIComponent(pageOf(links.table))}`;
      const told = post ? {} : await json(about, { signal });
      const after = regimes ?? [{ frequencies: links.frequencies, post }];
      const before = told.unscaled_frequencies ? [{ frequencies: told.unscaled_frequencies }] : [];
      const all = await Promise.all([...after, ...before].map(read));
      const series = all.map((each, at) => ({ values: each, series: at < after.length ? at : 2 }));
      const length = told.trained_length ?? values.max_position_embeddings?.value;
      const name = told.trained_length ? "trained" : "context";
      const lines = length ? [{ value: Number(length), text: `${name} ${whole(length)}` }] : [];
      const shown = { series, lines, height: 230, label: `Wavelengths of ${id}` };
      const scaled = before.length ? " after and before scaling (dashed)" : "";
      const title = muted(h("b", {}, "Wavelength"), `${scaled}, in positions`);
      const draw = () => {
        const width = chart.clientWidth - 24;
        if (width > 0) chart.replaceChildren(title, logChart({ ...shown, width }));
      };
      new ResizeObserver(draw).observe(chart);
    } catch (error) {
      if (!signal.aborted) chart.replaceChildren(refused(error));
    }
  }
}
