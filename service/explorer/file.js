// The file view: an array that is dropped, what it should be, and what is wrong with it.

import {
  bytesOf,
  checked,
  lengthOf,
  readArrays,
  safetensors,
  shapeText,
  sourceOf,
} from "./arrays.js";
import {
  Description,
  button,
  code,
  details,
  givenIn,
  list,
  muted,
  paragraph,
  posted,
  refused,
  takeFiles,
} from "./given.js";
import { Problem, bytes, copied, copyText, h, json, real, request, whole } from "./lib.js";
import { DifferenceSource, TableSource, exactText } from "./sources.js";
import { MatrixPane, buttons, isUpright } from "./table.js";

const WINDOW = 1024;
const MOST_BYTES = 2 ** 26;
const MOST_IDENTIFIED_BYTES = 2 ** 24;
const EXAMPLE = "/rope?head_dim=64&seq_len=512&pack=concat&rope_theta=";
const RAW =
  "It is neither npy nor safetensors. If it holds elements alone, say their shape and type.";
const VERDICTS = {
  equal: ["good", "Right"],
  packed: ["doubt", "Right numbers, in another order"],
  diagnosed: ["bad", "Mistake found"],
  identified: ["good", "Identified", "This is a table of this server."],
  ambiguous: ["doubt", "Ambiguous", "Several tables begin with these numbers."],
  none: ["doubt", "Not explained", "No table of this server has these numbers."],
};

const sizeText = ({ shape, dtype }) => `${shapeText(shape)} ${dtype}`;

/** Return the verdict in words, and what to do. */
function verdictOf({ verdict, sentence, mistakes = [], wrapper }) {
  const isOther = verdict === "equal" && wrapper;
  const [kind, text, own] = VERDICTS[isOther ? "packed" : verdict];
  const keys = ({ keys: all = {} }) => Object.entries(all).map(([name, key]) => `${name}: ${key}`);
  const engines = (each) => each.keys && details("In engines", list("muted", keys(each)));
  const todo = mistakes.map((each) => [paragraph(each.correction), engines(each)]);
  todo.push((isOther?.notes ?? []).map((note) => paragraph(note)));
  const head = [h("b", {}, text), h("h1", {}, sentence ?? own)];
  return h("div", { class: `verdict ${kind}` }, head, todo);
}

/** Return a call as a link, and to copy. */
function call(name, url) {
  const copy = () => copyText("Address", new URL(url, location).href);
  const link = [h("a", { href: url }, code(url)), button("Copy", copy, "quiet")];
  return h("p", { class: "call" }, h("span", {}, name), link);
}

/** Return a diagnosis: the verdict, what to do, and the evidence. */
function diagnosis(report) {
  const { verdict, findings = [], alternatives = [], wrapper = {}, groups = [] } = report;
  const { correct, yours, arithmetic, checked: seen, sampled, scores = [] } = report;
  const or = ({ mistakes }) => paragraph(`Or: ${mistakes.map((each) => each.sentence).join(" ")}`);
  const group = (each) => details([...each.arrays, each.layers].join(", "), diagnosis(each));
  const vs = correct && yours && `${correct.url}#vs=${encodeURIComponent(yours.url)}&show=d`;
  // The sentence of an array that is not explained is that of its first finding.
  const more = findings.map((each, at) => (at || verdict !== "none") && each.sentence);
  const notes = [
    arithmetic && `made in the arithmetic ${arithmetic}`,
    wrapper.pack && `packed as ${wrapper.pack}`,
    ...(wrapper.notes ?? []),
    `${whole(seen.elements)} numbers checked`,
    seen.of && `its ${whole(seen.rows)} rows are the first of ${whole(seen.of)}`,
    sampled && `explanations were looked for in ${sampled.rows} rows: ${sampled.which}`,
    ...scores.map((each) => `${each.agreement} of a score is left at distance ${each.distance}`),
  ];
  return [
    verdictOf(report),
    groups.map(group),
    alternatives.map(or),
    list("", more),
    correct && call("Expected", correct.url),
    yours && call("Yours", yours.url),
    vs && paragraph(h("a", { href: vs }, "Compare the two")),
    details("How it was examined", list("muted", notes)),
  ];
}

/** Return which tables an array may be. */
function identity({ verdict, hypotheses, nearest, notes }) {
  const about = ({ arithmetic: [first = {}] = [], support, transposed }) =>
    muted([transposed && "transposed", first.description, ...support].filter(Boolean).join(" · "));
  const each = (name) => (found) => [call(name, found.url), about(found)];
  const others = hypotheses.slice(1);
  return [
    verdictOf({ verdict }),
    hypotheses.slice(0, 1).map(each("Table")),
    others.length > 0 && details(`Other names: ${others.length}`, others.map(each("Also"))),
    nearest && each(`${real(100 * nearest.agreeing)} %`)(nearest),
    list("muted", notes),
  ];
}

/** Return where an array leaves its table. */
function evidence({ good_to: good, largest, array }, first) {
  const { shape, dtype } = array.theirs;
  const place = ({ position, channel }) =>
    channel === null ? `element ${position}` : `position ${position}, channel ${channel}`;
  const text = (value) => (typeof value === "number" ? exactText(value, dtype) : value);
  const most = largest.absolute;
  const from = good === null ? "Wrong from the start" : `Right up to position ${whole(good)}`;
  return list("evidence", [
    first && `${from}; at ${place(first)}: ${text(first.yours)} in place of ${text(first.theirs)}.`,
    most?.error > 0 && `The largest difference is ${real(most.error, 7)}, at ${place(most)}.`,
    dtype !== array.yours.dtype && `The table is ${shapeText(shape)} ${dtype}.`,
  ]);
}

/** The view. */
export class FileView {
  constructor(app) {
    this.app = app;
    this.element = copied("file").firstElementChild;
    const changed = () => this.read();
    const take = (file) => this.take(file);
    [this.told, this.array, this.found] = [".muted", "select", ".found"].map((each) =>
      this.element.querySelector(each),
    );
    [this.raw, this.layer] = this.element.querySelectorAll("form");
    this.raw.onchange = this.layer.onchange = this.array.onchange = changed;
    this.raw.onsubmit = this.layer.onsubmit = (event) => event.preventDefault();
    this.expected = new Description(this.element.querySelector(".description"), changed);
    this.found.querySelector("button").onclick = () => this.example();
    this.report = h("div", { class: "report" });
    this.pane = new MatrixPane();
    takeFiles(this.element, take);
  }

  async show() {}

  close() {}

  async example() {
    const made = await request(`${EXAMPLE}10000`, { headers: { Accept: "application/x-npy" } });
    this.expected.set(`${EXAMPLE}500000`);
    await this.take(new File([await made.blob()], "mine.npy"));
  }

  /** Read the header of a file and choose an array. */
  async take(file) {
    this.reading?.abort();
    this.file = null;
    this.told.textContent = file.name;
    try {
      Object.assign(this, { arrays: await readArrays(file), file });
    } catch (error) {
      return this.found.replaceChildren(refused(error));
    }
    const all = this.arrays ?? [];
    const option = (each, value) => h("option", { value }, `${each.name}: ${sizeText(each)}`);
    const options = all.map(option);
    options.push(h("option", { value: "all" }, `all ${all.length} together`));
    this.array.replaceChildren(...options);
    const likely = all.findIndex(({ name }) => /pos|rot|freq|cos|sin/i.test(name));
    const areParts = ["cos", "sin"].every((part) => all.some(({ name }) => name.includes(part)));
    this.array.value = all.length === 2 && areParts ? "all" : Math.max(likely, 0);
    this.array.hidden = all.length < 2;
    this.raw.hidden = this.arrays !== null;
    await this.read();
  }

  /** Return the chosen arrays; one without a header is what its form says. */
  chosen() {
    const { file, arrays } = this;
    if (arrays) return this.array.value === "all" ? arrays : [arrays[this.array.value]];
    const given = givenIn(this.raw);
    if (!given.has("shape")) throw new Problem(0, { title: "No header", detail: RAW });
    const shape = given.get("shape").split(",").map(Number);
    const dtype = given.get("dtype") ?? "float32";
    return [checked({ name: file.name, dtype, shape, file, first: 0 })];
  }

  /** Return arrays as a file to send, with a model beside them; of large ones the first rows. */
  async sent(arrays, model) {
    const limit = (this.expected.content ? MOST_BYTES : MOST_IDENTIFIED_BYTES) / arrays.length;
    const tensor = async (array) => {
      const length = lengthOf(array, limit);
      const name = arrays.length > 1 ? array.name : "x";
      const shape = array.shape.length ? [length, ...array.shape.slice(1)] : [];
      return { ...array, name, shape, bytes: await bytesOf(array, length) };
    };
    const tensors = await Promise.all(arrays.map(tensor));
    const [length, all] = [tensors[0].shape[0], arrays[0].shape[0]];
    const part = length < all ? `; its first ${whole(length)} rows of ${whole(all)} are sent` : "";
    const about = arrays.length > 1 ? `${arrays.length} arrays` : sizeText(arrays[0]);
    this.told.textContent = `${this.file.name}: ${about}, ${bytes(this.file.size)}${part}`;
    if (model) {
      const content = await new Blob([model]).arrayBuffer();
      const shape = [content.byteLength];
      tensors.push({ name: "model", dtype: "uint8", shape, bytes: content });
    }
    return safetensors(tensors);
  }

  /** Examine what is given and show the report; a later call ends this one. */
  async read() {
    const { content } = this.expected;
    const isUrl = typeof content === "string" && /^(https?:\/)?\//.test(content);
    this.layer.hidden = !content || isUrl;
    if (!this.file) return;
    this.reading?.abort();
    const { signal } = (this.reading = new AbortController());
    try {
      const arrays = this.chosen();
      const body = await this.sent(arrays, isUrl ? null : content);
      const source = await sourceOf(arrays[0]).catch(refused);
      if (signal.aborted) return;
      const isDrawn = !(source instanceof Element);
      this.report.replaceChildren(muted("Examined …"));
      const drawn = isDrawn ? [this.pane.choices, this.pane.element] : [source];
      this.found.replaceChildren(this.report, ...drawn);
      if (isDrawn) this.draw({ File: source });
      const query = this.layer.hidden ? new URLSearchParams() : givenIn(this.layer);
      if (isUrl) query.set("to", content.replace(/^https?:\/\/[^/]*/, ""));
      const options = posted(body, signal, "application/vnd.safetensors");
      const report = await json(`/${content ? "diagnose" : "identify"}?${query}`, options);
      const parts = content ? diagnosis(report) : identity(report);
      this.report.replaceChildren(...parts.flat(3).filter(Boolean));
      this.app.announce(this.report.querySelector("h1").textContent);
      if (!isDrawn) return;
      const groups = report.groups ?? [];
      const one = groups.find(({ verdict }) => verdict !== "equal") ?? groups[0] ?? report;
      const own = arrays.filter(({ name }) => one.arrays?.includes(name) ?? true);
      await this.compare(one, own, signal);
    } catch (error) {
      if (!signal.aborted) this.found.replaceChildren(refused(error));
    }
  }

  /** Compare with the table that is meant, mark the first difference, and show both. */
  async compare({ correct, hypotheses = [], nearest, ...report }, arrays, signal) {
    const { url, post } = correct ?? hypotheses[0] ?? nearest ?? {};
    if (!url || post) return;
    const to = new URL(url, location);
    const { wrapper, mistakes = [], arithmetic = "exact" } = report;
    const isOrder = mistakes.some((each) => each.name === "layout-swapped");
    if (wrapper?.pack && !isOrder) to.searchParams.set("pack", wrapper.pack);
    const query = new URLSearchParams({ to: to.pathname + to.search });
    // A table made in float32 is off by as much as its largest angle is rounded.
    const rows = arrays[0].shape.at(-2) ?? arrays[0].shape[0];
    if (!/exact|float64/.test(arithmetic)) query.set("atol", rows * 2 ** -22);
    const options = posted(await this.sent(arrays), signal, "application/vnd.safetensors");
    const compared = await json(`/compare?${query}`, options).catch(() => ({}));
    if (signal.aborted) return;
    const reports = compared.arrays ?? { [arrays[0].name]: compared };
    const array = arrays.find(({ name }) => reports[name]?.first_beyond) ?? arrays[0];
    const own = reports[array.name] ?? {};
    const first = report.verdict === "equal" ? null : own.first_beyond;
    if (own.array) this.report.append(evidence(own, first) || "");
    const description = await this.app.describe(query.get("to"));
    const Table = new TableSource(description, { part: array.name });
    const isTurned = mistakes.some((each) => each.name === "transposed");
    const File = await sourceOf(array, own.array && !isTurned && description);
    const isAlike = own.array && Table.columns.count === File.columns.count;
    const both = isAlike ? { Difference: new DifferenceSource(File, Table) } : {};
    const toRow = (sum, each, axis) => sum * array.shape[axis] + each;
    const mark = first &&
      !isTurned && {
        row: BigInt(first.index.slice(0, -1).reduce(toRow, 0)),
        column: BigInt(first.index.at(-1)),
        text: `first wrong: position ${first.position}`,
      };
    this.draw({ File, Table, ...both }, description, mark);
  }

  /** Draw one of some sources; the others can be chosen. */
  draw(sources, description, mark, name = "File", isNew = true) {
    const choose = (other) => this.draw(sources, description, mark, other, false);
    const names = Object.keys(sources);
    this.pane.choices.replaceChildren(buttons("Shown", names, name, choose));
    this.pane.choices.hidden = names.length < 2;
    const own = name === "Table" ? description : {};
    const panels = [{ source: sources[name], name }];
    const upright = !description || isUpright(description);
    const marks = mark ? [mark] : [];
    this.pane.show({ panels, description: own, isUpright: upright, marks });
    if (!mark || !isNew) return;
    this.pane.heatmap.place(mark);
    this.pane.heatmap.window(WINDOW);
  }
}
