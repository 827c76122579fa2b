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
  joined,
  layersText,
  list,
  muted,
  paragraph,
  posted,
  showing,
  takeFiles,
} from "./given.js";
import {
  Problem,
  announce,
  bytes,
  copyText,
  fault,
  fill,
  h,
  json,
  partsOf,
  real,
  request,
  whole,
} from "./lib.js";
import { DifferenceSource, TableSource, exactText } from "./sources.js";
import { MatrixPane, buttons, isUpright } from "./table.js";

const WINDOW = 1024;
const MOST_BYTES = 2 ** 26;
const MOST_IDENTIFIED_BYTES = 2 ** 24;
const TENSORS = "application/vnd.safetensors";
const EXAMPLE = "/rope?head_dim=64&seq_len=512&pack=concat&rope_theta=";
const RAW =
  "It is neither npy nor safetensors. If it holds elements alone, say their shape and type.";
const VERDICTS = {
  equal: ["good", "Right"],
  packed: ["doubt", "Right numbers, packed otherwise"],
  diagnosed: ["bad", "Mistake found"],
  identified: ["good", "Identified", "This is a table of this server."],
  ambiguous: ["doubt", "Ambiguous", "Several tables begin with these numbers."],
  none: ["doubt", "Not explained", "No table of this server has these numbers."],
};

const sizeText = ({ shape, dtype }) => `${shapeText(shape)} ${dtype}`;

/** Return the verdict in words, and what to do. */
function verdictOf({ verdict, sentence, mistakes = [], wrapper }) {
  const isEqual = verdict === "equal";
  const [kind, text, own] = VERDICTS[isEqual && wrapper?.pack ? "packed" : verdict];
  const keys = (all) => Object.entries(all).map(([name, key]) => `${name}: ${key}`);
  const todo = mistakes.map((each) => [
    paragraph(each.correction),
    each.keys && details("In engines", list("muted", keys(each.keys))),
  ]);
  return h(
    "div",
    { class: `verdict ${kind}` },
    h("b", {}, text),
    h("h1", {}, sentence ?? own),
    todo,
    isEqual && wrapper?.notes?.map((note) => paragraph(note)),
  );
}

/** Return a call as a link, and to copy. */
function call(name, url) {
  const copy = ({ target }) => copyText(name, new URL(url, location).href, target);
  const link = [h("a", { href: url }, code(url)), button("Copy", copy, "quiet")];
  return h("p", { class: "call" }, h("span", {}, name), link);
}

/** Return a diagnosis: the verdict, what to do, and the evidence. */
function diagnosis(report) {
  const { verdict, findings = [], alternatives = [], wrapper = {}, groups = [] } = report;
  const { correct, yours, arithmetic, checked: seen, sampled, scores = [] } = report;
  const or = ({ mistakes }) => paragraph(`Or: ${mistakes.map((each) => each.sentence).join(" ")}`);
  const group = (each) =>
    details(joined(...each.arrays, layersText(each.layers ?? [])), diagnosis(each));
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

/** Return those of some arrays that a report, or its first group with a mistake, is about. */
function examined(arrays, { arrays: patterns, layers = [] }) {
  if (!patterns) return arrays;
  // A pattern is the first name of cosines and sines that were examined together.
  const stem = (name) => name.replace(/cos|sin/, "");
  const stems = patterns.map((each) => stem(each.replace("*", layers[0])));
  return arrays.filter(({ name }) => stems.includes(stem(name)));
}

/** The view. */
export class FileView {
  constructor(app) {
    Object.assign(this, { app, pane: new MatrixPane() }, partsOf("file"));
    this.read = showing(this.found, (signal) => this.examine(signal));
    this.raw.onchange = this.layer.onchange = this.array.onchange = this.read;
    this.expected = new Description(this.description, this.read);
    this.example.onclick = () => this.tryOne();
    this.report = h("div", { class: "report" });
    takeFiles(this.element, (file) => this.take(file));
  }

  async tryOne() {
    const made = await request(`${EXAMPLE}10000`, { headers: { Accept: "application/x-npy" } });
    this.expected.set(`${EXAMPLE}500000`);
    await this.take(new File([await made.blob()], "mine.npy"));
  }

  /** Read the header of a file and choose an array. */
  async take(file) {
    this.file = file;
    this.told.textContent = file.name;
    this.arrays = readArrays(file);
    const held = await this.arrays.catch(() => []);
    if (this.file !== file) return;
    const all = held ?? [];
    const option = (each, value) => h("option", { value }, `${each.name}: ${sizeText(each)}`);
    fill(this.array, all.map(option), h("option", { value: "all" }, `all ${all.length} together`));
    const likely = all.findIndex(({ name }) => /pos|rot|freq|cos|sin/i.test(name));
    const areParts = ["cos", "sin"].every((part) => all.some(({ name }) => name.includes(part)));
    this.array.value = all.length === 2 && areParts ? "all" : Math.max(likely, 0);
    this.array.hidden = all.length < 2;
    this.raw.hidden = held !== null;
    await this.read();
  }

  /** Return the chosen arrays; one without a header is what its form says. */
  async chosen() {
    const { file, array } = this;
    const arrays = await this.arrays;
    if (arrays) return array.value === "all" ? arrays : [arrays[array.value]];
    const given = givenIn(this.raw);
    if (!given.has("shape")) throw new Problem(0, { title: "No header", detail: RAW });
    const shape = given.get("shape").split(",").map(Number);
    const dtype = given.get("dtype") ?? "float32";
    return [checked({ name: file.name, dtype, shape, file, first: 0 })];
  }

  /** Examine what is given and show the report. */
  async examine(signal) {
    const { content } = this.expected;
    const isUrl = typeof content === "string" && /^(https?:\/)?\//.test(content);
    this.layer.hidden = !content || isUrl;
    if (!this.file) return undefined;
    const arrays = await this.chosen();
    const limit = (content ? MOST_BYTES : MOST_IDENTIFIED_BYTES) / arrays.length;
    const [length, all] = [lengthOf(arrays[0], limit), arrays[0].shape[0] ?? 1];
    const part = length < all ? `; its first ${whole(length)} rows of ${whole(all)} are sent` : "";
    const about = arrays.length > 1 ? `${arrays.length} arrays` : sizeText(arrays[0]);
    this.told.textContent = `${this.file.name}: ${about}, ${bytes(this.file.size)}${part}`;
    const body = await sent(arrays, limit, isUrl ? null : content);
    const source = await sourceOf(arrays[0]).catch(fault);
    if (signal.aborted) return undefined;
    const isDrawn = !(source instanceof Element);
    fill(this.report, muted("Examined …"));
    fill(this.found, this.report, isDrawn ? [this.pane.choices, this.pane.element] : source);
    if (isDrawn) this.draw({ File: source });
    const query = this.layer.hidden ? new URLSearchParams() : givenIn(this.layer);
    if (isUrl) query.set("to", content.replace(/^https?:\/\/[^/]*/, ""));
    const report = await json(
      `/${content ? "diagnose" : "identify"}?${query}`,
      posted(body, signal, TENSORS),
    );
    fill(this.report, content ? diagnosis(report) : identity(report));
    announce(this.report.querySelector("h1").textContent);
    if (isDrawn) await this.compare(report, arrays, signal);
    return undefined;
  }

  /** Compare with the table that is meant, mark the first difference, and show both. */
  async compare(report, arrays, signal) {
    const own = report.groups?.find(({ verdict }) => verdict !== "equal") ?? report;
    const { wrapper, mistakes = [], arithmetic = "exact", hypotheses = [], nearest } = own;
    const { url, post } = own.correct ?? hypotheses[0] ?? nearest ?? {};
    if (!url || post) return;
    const to = new URL(url, location);
    const isOrder = mistakes.some((each) => each.name === "layout-swapped");
    if (wrapper?.pack && !isOrder) to.searchParams.set("pack", wrapper.pack);
    const table = to.pathname + to.search;
    const description = await this.app.describe(table).catch(() => null);
    const held = examined(arrays, own);
    // What is known of a rotation is no table to draw.
    if (!description || !held.length) return;
    const { parts } = description.view;
    const compared = async ([array, part]) => {
      const query = new URLSearchParams({ to: part ? `${table}&part=${part}` : table });
      // A table made in float32 is off by as much as its largest angle is rounded.
      const rows = array.shape.at(-2) ?? array.shape[0];
      if (!/exact|float64/.test(arithmetic)) query.set("atol", rows * 2 ** -22);
      const options = posted(await sent([array], MOST_BYTES), signal, TENSORS);
      return { array, part, found: await json(`/compare?${query}`, options).catch(() => ({})) };
    };
    const choices = held.flatMap((array) => {
      const named = parts.filter((part) => array.name.endsWith(part));
      const possible = named.length ? named : parts.length ? parts : [undefined];
      return possible.map((part) => [array, part]);
    });
    const all = await Promise.all(choices.map(compared));
    // An array that is named after no part is the one that it is closest to.
    const error = ({ found }) => found.largest?.absolute?.error ?? Infinity;
    const closest = held.map((array) => {
      const own = all.filter((each) => each.array === array);
      return own.sort((a, b) => error(a) - error(b))[0];
    });
    const { array, part, found } = closest.find((each) => each.found.first_beyond) ?? closest[0];
    const first = own.verdict === "equal" ? null : found.first_beyond;
    const Table = new TableSource(description, { part });
    const isTurned = mistakes.some((each) => each.name === "transposed");
    const File = await sourceOf(array, found.array && !isTurned && description);
    if (signal.aborted) return;
    if (found.array) fill(this.report, ...this.report.childNodes, evidence(found, first));
    const isAlike = found.array && Table.columns.count === File.columns.count;
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

  /** Draw the file, with a mark; the other sources can be chosen. */
  draw(sources, description, mark) {
    const names = Object.keys(sources);
    const choose = (name) => {
      fill(this.pane.choices, buttons("Shown", names, name, choose));
      this.pane.show({
        panels: [{ source: sources[name], name }],
        description: name === "Table" ? description : {},
        isUpright: !description || isUpright(description),
        marks: mark ? [mark] : [],
      });
    };
    this.pane.choices.hidden = names.length < 2;
    choose("File");
    if (!mark) return;
    this.pane.heatmap.place(mark);
    this.pane.heatmap.window(WINDOW);
  }
}

/** Return arrays as a file to send, of each as many rows as a limit allows, with a model. */
async function sent(arrays, limit, model = null) {
  const tensor = async (array) => {
    const length = lengthOf(array, limit);
    const name = arrays.length > 1 ? array.name : "x";
    const shape = array.shape.length ? [length, ...array.shape.slice(1)] : [];
    return { ...array, name, shape, bytes: await bytesOf(array, length) };
  };
  const tensors = await Promise.all(arrays.map(tensor));
  if (model) {
    const content = await new Blob([model]).arrayBuffer();
    const shape = [content.byteLength];
    tensors.push({ name: "model", dtype: "uint8", shape, bytes: content });
  }
  return safetensors(tensors);
}
