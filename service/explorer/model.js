// The model view: what describes a model at the left, its positional encodings at the right.

import { shapeText } from "./arrays.js";
import { logChart } from "./charts.js";
import { Description, code, details, givenIn, joined, layersText } from "./given.js";
import { list, muted, pageOf, paragraph, posted, showing } from "./given.js";
import { Problem, announce, fault, fill, frequenciesAt } from "./lib.js";
import { button, h, json, partsOf, real, whole } from "./lib.js";
import models from "./models.json" with { type: "json" };
import { edit } from "./post.js";

const ROPE = "rotary embedding";
const AXIAL = `${ROPE} on several axes`;
const LEARNED = "learned positions: the weights of the model are their table";
const NAMES = { none: `no ${ROPE}`, alibi: "ALiBi", learned: LEARNED };
const KINDS = { rope: ROPE, "rope-axial": AXIAL, ...NAMES };
const STORED = ["stored", "stored_shape", "resize", "resized_around", "not_resized", "source"];
const FACTS = ["counts", "asks", "writes", "untouched_tokens", ...STORED];
const NOT_FILES = ["table", "apply", "post", "context_length", "shape", "dtype"];
const SIDES = { "/a": "first model: ", "/b": "second model: " };
const RESULTS = { differs: "differ", unknown: "may differ" };
const ASSUMED = "its code is not known here, and what follows is from the config alone.";

const broken = (name) => code(name.split(/(?=[_/.])/).map((each) => [h("wbr"), each]));
const part = (...children) => h("section", { class: "part" }, children);

/** Return a value in words; a long one opens to all of it. */
function listed(value) {
  const text = Array.isArray(value) ? value.join(", ") : JSON.stringify(value).replaceAll('"', "");
  return text.length > 80
    ? details(`${text.slice(0, 60)} … (${value.length ?? text.length})`, text)
    : text;
}

/** Return a fact in words: a text, numbers, or values by name. */
function factText(value = "") {
  const text = JSON.stringify(value, (_, each) => each?.value ?? each);
  return typeof value === "string" ? value : text.replace(/["{}[\]]/g, "").replace(/[,:]/g, "$& ");
}

/** Return a table of the factors of attention, with the text that the report has on each. */
function attentionTable({ query_temperature: temperature, origin: from = {}, ...factors }) {
  const { formula, layers = [], ...numbers } = temperature ?? {};
  const text = formula && { query_temperature: joined(formula, layersText(layers)) };
  const cells = (value, name) => [listed(value), from[name]];
  return table(["Attention", "Value", "From"], { ...factors, ...text, ...numbers }, cells);
}

/** Return which layers have an encoding, in words. */
const layersOf = ({ all, only = [], type } = {}) =>
  joined(type, all ? `all ${all} layers` : layersText(only));

/** Return where a value is from: pointers as code, anything else in words. */
function origin({ origin: name, from = [] }) {
  const pointers = from.filter((each) => each.startsWith("/"));
  const words = from.filter((each) => !pointers.includes(each) && !each.startsWith(name));
  const text = h("span", { class: "muted" }, [name, ...words].join(": "), " ");
  return [name !== "config" && text, pointers.map((each) => [broken(each), " "])];
}

/** Return a table of values by name; nothing of none. */
function table(heads, values = {}, cells) {
  const head = heads.map((each) => h("th", { scope: "col" }, each));
  const row = ([name, value]) => {
    const others = cells(value, name).map((each) => h("td", {}, each));
    return h("tr", {}, h("th", { scope: "row" }, broken(name)), others);
  };
  const rows = Object.entries(values).map(row);
  const body = [h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)];
  const props = { class: "scroll", tabindex: "0", role: "group", "aria-label": heads.join(", ") };
  return rows.length > 0 && h("div", props, h("table", {}, body));
}

/** Return the name of the model, what is known of it, and its warnings. */
function modelHead({ model_type, knowledge, format, warnings, read, ...report }, which) {
  const { library, status } = knowledge;
  const kind = status === "known" ? "good" : "doubt";
  const known = h("b", { class: kind }, status, library && ` by ${library}`);
  const seen = read && `Read: ${joined(...Object.entries(read).map((each) => each.join(" ")))}`;
  const warning = ({ detail, pointer }) => [detail, " ", code(pointer)];
  const isSaid = report.encodings.some((each) => each.reason === report.reason);
  const keys = (text, all) => all.length > 0 && paragraph(`${text}: `, code(all.join(" ")));
  return [
    h("h1", {}, which, model_type ?? format.name),
    muted(known, ` · ${format.name}, found by `, code(format.found_by)),
    [!isSaid && report.reason, report.weights, seen].map((each) => each && paragraph(each)),
    list("warning", warnings.filter(({ detail }) => detail !== report.reason).map(warning)),
    keys("Without effect", report.unread),
    keys("Not understood", report.not_understood),
  ];
}

/** Return what an engine must be told. */
function engine([name, { source, cannot = [], caches = [], ...told }]) {
  const link = (text, href) => [h("a", { href }, text), " "];
  const files = ({ id, cos_cache: cos, sin_cache: sin }) =>
    paragraph(`${id} `, link("cos", cos), link("sin", sin));
  const limits = cannot.map((each) => `It cannot express ${each}`);
  const text = h("pre", { tabindex: "0" }, JSON.stringify(told, null, 2));
  return details(name, list("warning", limits), text, caches.map(files), muted(source));
}

/** Return what differs between two models, and where each value is from. */
function difference({ verdict, reason, encodings, ...report }) {
  const words = (name) => RESULTS[name] ?? `are the ${name}`;
  const sides = ({ a, b }) =>
    [a, b].map((each) => each && [listed(each.value), h("br"), origin(each)]);
  const pair = ({ a, b, result, ...each }) => [
    h("h2", {}, `${a} and ${b === "b" ? "the second" : b} ${words(result)}`),
    // What is all layers of one model may be some of the other.
    muted(joined(layersOf(each.layers).replace("all ", ""), each.summary, each.by_axis)),
    each.reason && paragraph(each.reason),
    table(["Differs", "First", "Second"], each.values, sides),
    table(["Written otherwise", "First", "Second"], each.also_spelled_differently, sides),
  ];
  const only = (text, all) =>
    all.map(({ id, layers }) => paragraph(`Only in the ${text}: ${joined(id, layersOf(layers))}`));
  const title = h("h1", {}, `Two models: their encodings ${words(verdict)}`);
  const rest = [only("first", report.only_in_a), only("second", report.only_in_b)];
  return part(title, reason && paragraph(reason), encodings.map(pair), rest);
}

export class ModelView {
  constructor(app) {
    Object.assign(this, { app }, partsOf("model"));
    const read = showing(this.found, (signal) => this.read(signal));
    const parts = [...this.element.querySelectorAll(".description")];
    [this.one, this.other] = parts.map((each) => new Description(each, read));
    this.form.onchange = read;
    this.tries.onclick = ({ target: { textContent: name } }) => {
      if (name in models) this.one.set(JSON.stringify(models[name], null, 2));
    };
  }

  /** Return the report about what is given. */
  async read(signal) {
    const { content, type } = this.one;
    if (!content) return this.empty;
    const query = String(givenIn(this.form)).replace(/(?<=\d)\+*(x|%C3%97)\+*(?=\d)/g, ",");
    const sent = json(`/model?${query}`, posted(content, signal, type), "encodings");
    const compared = this.other.content && this.compare(signal).then(difference, fault);
    const report = await sent;
    const alike = ({ id, at, counts, layers, ...own }) => (own.links ? JSON.stringify(own) : id);
    const groups = [...Map.groupBy(report.encodings, alike).values()];
    const parts = groups.map((each) => this.encoding(each, signal));
    const engines = Object.entries(report.engines).map(engine);
    const told = engines.length > 0 && part(h("h2", {}, "What engines must be told"), engines);
    announce(`${report.model_type ?? "Model"}: ${report.encodings.length} encodings`);
    return [await compared, modelHead(report, compared && "First model: "), parts, told];
  }

  async compare(signal) {
    const both = [this.one.content, this.other.content];
    if (!both.every((each) => typeof each === "string"))
      throw new Problem(0, { title: "Two models are compared as JSON only" });
    const [a, b] = both.map((each) => JSON.stringify(each));
    const sent = json("/model/diff", posted(`{"a": ${a}, "b": ${b}}`, signal), "encodings");
    return sent.catch((error) => {
      for (const each of error.errors ?? [])
        each.pointer = each.pointer?.replace(/^\/[ab]\b/, (own) => SIDES[own]);
      throw error;
    });
  }

  /** Return the part of the report about encodings that have one table. */
  encoding(all, signal) {
    const [encoding] = all;
    const { kind, layout, shape, links = {}, post, position_ids: ids, reason } = encoding;
    const every = (text) => [...new Set(all.map(text))];
    const regimes = encoding.regimes ?? [{ ...links, post }];
    const asked = { ...links, post, context_length: encoding.values?.context_length?.value };
    const isAsked = regimes.some((each) => each.context_length === asked.context_length);
    const tables = !encoding.regimes || isAsked ? regimes : [asked, ...regimes];
    const open = ({ table: url, post: body, context_length: length }) => {
      const text = length ? `Open up to ${whole(length)}` : "Open the table";
      return body
        ? button(text, () => edit(this.app, pageOf(url), body), "primary")
        : h("a", { class: "primary button", href: pageOf(url) }, text);
    };
    const chart = links.frequencies && h("div", { class: "chart-card" });
    if (chart)
      this.draw(chart, regimes, encoding, signal).catch((error) => fill(chart, fault(error)));
    const told = (name) => every((each) => factText(each[name])).map((text) => h("dd", {}, text));
    const fact = (name) => [h("dt", {}, name.replace("_", " ")), told(name)];
    const facts = FACTS.filter((name) => encoding[name]).map(fact);
    const resized = encoding.resized && h("a", { href: encoding.resized }, "weights of the resize");
    const number = ids?.post && button("Number tokens", () => edit(this.app, ids.url, ids.post));
    const file = ([name, href]) => !NOT_FILES.includes(name) && h("a", { href }, name);
    const files = (each) => {
      const length = each.context_length && `Up to ${whole(each.context_length)}:`;
      return !each.post && h("p", { class: "tries" }, length, Object.entries(each).map(file));
    };
    const cells = (each) => [listed(each.value), origin(each)];
    const names = all.map(({ id }) => [" ", code(id)]);
    const title = h("h2", {}, h("span", {}, KINDS[kind] ?? kind.replace("-", " ")), names);
    const layers = every((each) => layersOf(each.layers));
    const places = every(({ at }) => at).map((at) => [" ", code(at)]);
    const about = joined(...layers, layout && `layout ${layout}`, shape && shapeText(shape));
    const why = (reason ?? ASSUMED).replace("POST the", "open the");
    return part(
      h("div", { class: "label" }, title, links.table && tables.map(open)),
      muted(about, places),
      encoding.known && reason && paragraph(reason),
      !encoding.known && h("p", { class: "warning" }, h("b", {}, "Not known: "), why),
      chart,
      table(["Parameter", "Value", "From"], encoding.values, cells),
      encoding.attention && attentionTable(encoding.attention),
      facts.length > 0 && h("dl", {}, facts),
      ids && paragraph(`Position ids: ${ids.rule ?? "not known"}.`),
      tables.map(files),
      (number || resized) && h("p", { class: "tries" }, number, resized),
    );
  }

  /** Draw the wavelengths after and before scaling, with the trained length. */
  async draw(chart, regimes, { id, values }, signal) {
    const read = ({ frequencies, post }) =>
      frequenciesAt(frequencies, post ? posted(JSON.stringify(post), signal) : { signal });
    const [{ post, table: url }] = regimes;
    const told = post ? {} : await this.app.describe(pageOf(url));
    const { unscaled_frequencies: unscaled, trained_length: trained } = told;
    const before = unscaled ? [{ frequencies: unscaled }] : [];
    const all = await Promise.all([...regimes, ...before].map(read));
    const [{ axis: axes }] = all;
    const styles = axes ? [] : [...regimes.keys(), 2];
    const series = all.map((each, at) => ({ values: each.wavelength, axes, series: styles[at] }));
    const length = trained ?? values.max_position_embeddings?.value;
    const text = `${trained ? "trained" : "context"} ${whole(length)}`;
    const lines = length ? [{ value: Number(length), text }] : [];
    const shown = { series, lines, height: 230, label: `Wavelengths of ${id}` };
    const names = regimes.map(({ context_length: most }) =>
      most ? `up to ${whole(most)}` : unscaled && "after scaling",
    );
    const ofAxes = axes && [...new Set(axes)].map((axis) => `axis ${axis}`);
    const { attention_factor: times = 1 } = told.parameters ?? {};
    const scaled = times !== 1 && ` · cos and sin × ${real(times)}`;
    const named = (ofAxes ?? [...names, unscaled && "before scaling"]).map(
      (name, at) => name && [" · ", h("b", { class: `name-${styles[at] ?? at}` }, name)],
    );
    const unit = `, in ${told.turns_by ?? "position"}s`;
    const title = muted(h("b", {}, "Wavelength"), unit, named, scaled);
    const draw = () => {
      const width = chart.clientWidth - 24;
      if (width > 0) chart.replaceChildren(title, logChart({ ...shown, width }));
    };
    new ResizeObserver(draw).observe(chart);
  }
}
