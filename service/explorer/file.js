// The file view: an array that is dropped, what it should be, and what is wrong with it.

import { checked, lengthOf, matricesOf, packed, readArrays } from "./arrays.js";
import { Description, givenIn, muted, pageOf, posted, showing, takeFiles } from "./given.js";
import { Problem, announce, bytes, fault, fill, h, json, partsOf, request, whole } from "./lib.js";
import { diagnosis, evidence, identity, placeIn, sizeText } from "./report.js";
import { DifferenceSource, TableSource } from "./sources.js";
import { MatrixPane, buttons, choices } from "./table.js";

const WINDOW = 1024;
const MOST_BYTES = 2 ** 26;
const MOST_IDENTIFIED_BYTES = 2 ** 24;
const TENSORS = "application/vnd.safetensors";
const EXAMPLE = "/rope?head_dim=64&seq_len=512&pack=concat&rope_theta=";
const SHAPE = /^\s*\d+([\s,x×]+\d+)*\s*$/;
const RAW = "It has no header: say the shape of its elements, as 512 × 128, and their type.";

/** Return those of some arrays that a report, or its first group with a mistake, is about. */
function examined(arrays, { arrays: patterns, layers = [] }) {
  if (!patterns) return arrays;
  // A pattern is the first name of cosines and sines that were examined together.
  const stem = (name) => name.replace(/cos|sin/, "");
  const stems = patterns.map((each) => stem(each.replace("*", layers[0])));
  return arrays.filter(({ name }) => stems.includes(stem(name)));
}

export class FileView {
  constructor(app) {
    Object.assign(this, { app, pane: new MatrixPane() }, partsOf("file"));
    this.read = showing(this.found, (signal) => this.examine(signal));
    this.raw.onchange = this.layer.onchange = this.array.onchange = this.read;
    this.expected = new Description(this.description, this.read);
    this.example.onclick = () => this.tryOne();
    this.model.onclick = async () => {
      const { area, file } = this.expected;
      await app.open("/#view=model");
      app.views.Model.one.set(area.value, area.placeholder, file);
    };
    this.found.onclick = (event) => {
      const link = event.target.closest(".fault a");
      if (!link) return;
      event.preventDefault();
      const { pathname, search, searchParams } = new URL(link.href);
      this.expected.set(searchParams.get("to") ?? pageOf(pathname + search));
    };
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
    if (!SHAPE.test(given.get("shape"))) throw new Problem(0, { title: "No shape", detail: RAW });
    const shape = given.get("shape").match(/\d+/g).map(Number);
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
    const body = await packed(arrays, limit, isUrl ? null : content);
    const drawn = await matricesOf(arrays[0]).catch(fault);
    if (signal.aborted) return undefined;
    const isDrawn = !(drawn instanceof Element);
    fill(this.report, muted("Examined …"));
    fill(this.found, this.report, isDrawn ? [this.pane.choices, this.pane.element] : drawn);
    if (isDrawn) this.draw(() => ({ File: drawn.matrix() }));
    const query = this.layer.hidden ? new URLSearchParams() : givenIn(this.layer);
    const asked = isUrl ? content.replace(/^https?:\/\/[^/]*/, "") : null;
    if (asked) query.set("to", asked);
    const url = `/${content ? "diagnose" : "identify"}?${query}`;
    const report = await json(url, posted(body, signal, TENSORS));
    // What is asked for has all rows, and not those alone that are there.
    if (asked && report.checked.of) report.correct = { url: pageOf(asked) };
    if (report.nearest?.agreeing < 0.5) report.nearest = null;
    fill(this.report, content ? diagnosis(report) : identity(report));
    announce(this.report.querySelector("h1").textContent);
    return isDrawn && this.compare(report, arrays, signal);
  }

  /** Compare with the table that is meant, mark the first difference, and show both. */
  async compare(report, arrays, signal) {
    const own = report.groups?.find(({ verdict }) => verdict !== "equal") ?? report;
    const { wrapper, mistakes = [], hypotheses = [], nearest } = own;
    const { url, post, transposed } = own.correct ?? hypotheses[0] ?? nearest ?? {};
    const { position = null, index: left } = nearest?.leaves_at ?? {};
    // Where most numbers are right, those of any arithmetic may be.
    const { arithmetic = own.verdict === "none" ? "unknown" : "exact" } = own;
    const held = examined(arrays, own);
    // One wrong number has its place in the report, whatever the arithmetic of the others.
    const isPlain = held.length === 1 && held[0].shape.length === 2;
    const one =
      isPlain && own.findings?.find(({ name, channel }) => name === "element" && channel >= 0);
    // The rows of the nearest table may have any positions.
    const isElsewhere = position !== null && position !== left.at(-2);
    if (!url || post || !held.length || isElsewhere) return;
    const names = mistakes.map(({ name }) => name).join();
    const isComplex = held[0].dtype.startsWith("complex");
    const pack = isComplex ? "complex" : !/layout|halves/.test(names) && wrapper?.pack;
    const to = new URL(url, location);
    if (pack) to.searchParams.set("pack", pack);
    const table = to.pathname + to.search;
    const description = await this.app.describe(table).catch(() => null);
    // What is known of a rotation is no table to draw.
    if (!description) return;
    const { axes } = description;
    const { parts, leading, rows: down } = description.view;
    const { rows } = new TableSource(description, { part: parts[0] });
    const farthest = Math.max(...[0n, rows.count - 1n].map((at) => Math.abs(Number(rows.at(at)))));
    const compared = async (array, part) => {
      const query = new URLSearchParams({ to: part ? `${table}&part=${part}` : table });
      // A table made in float32 is off by as much as its largest angle is rounded.
      if (!/exact|float64/.test(arithmetic)) query.set("atol", farthest * 2 ** -22);
      const options = posted(await packed([array], MOST_BYTES), signal, TENSORS);
      return { array, part, found: await json(`/compare?${query}`, options).catch(() => ({})) };
    };
    const error = ({ found }) => (found.equal ? 0 : (found.largest?.absolute?.error ?? Infinity));
    // An array that is named after no part is the one that it is closest to.
    const closestTo = async (array) => {
      const named = parts.filter((part) => array.name.endsWith(part));
      const possible = named.length ? named : parts.length ? parts : [undefined];
      const all = await Promise.all(possible.map((part) => compared(array, part)));
      // Of cosines and sines alone, those of the other part are wrong from the first row on.
      const first = ({ found }) => Number(found.good_to ?? -Infinity);
      // Of two that are never right, the difference is NaN, which is false.
      return all.sort((a, b) => first(b) - first(a) || error(a) - error(b))[0];
    };
    const closest = await Promise.all(held.map(closestTo));
    const { array, part, found } = closest.find((each) => each.found.first_beyond) ?? closest[0];
    // The server compares with axes in the order that fits best; of two tables it knows the order.
    const isTurned = transposed || /transposed|axes-swapped/.test(names);
    const have = found.axes?.order && !isTurned && arithmetic === "exact" && own.yours?.url;
    const asTables = `/compare?${new URLSearchParams({ have, to: table })}`;
    if (have) Object.assign(found, await json(asTables).catch(() => ({})));
    const { order, prefix, position: along } = found.axes ?? {};
    if (along && !axes.includes(along)) found.axes.position = down.axis;
    const beyond = !order && own.verdict !== "equal" && found.first_beyond;
    const index = one && [one.row, one.channel];
    const isOther = one && `${beyond?.index}` !== `${index}`;
    const first = isOther ? { ...one, index } : beyond;
    // Where several axes make up the rows, fewer places along an inner one are other rows.
    const [outer] = axes.filter((axis) => axis !== leading?.axis && !axis.startsWith("channel"));
    const isLaid = found.array && (!prefix || [leading?.axis, outer].includes(prefix.axis));
    const ofHeads = array.shape.map((_, axis) => (!axis && leading?.axis) || "");
    const view = { leading, columns: { axis: "column" } };
    const turned = { is_index: description.is_index, axes: ofHeads, view };
    const drawn = await matricesOf(array, order && isTurned ? turned : isLaid && description);
    if (signal.aborted) return;
    const told =
      found.array && !order && !isOther && evidence(found, first, axes, drawn.matrix().columns);
    if (told) this.report.append(told);
    const sources = (matrix) => {
      const head = matrix % (leading?.count ?? 1);
      const [File, Table] = [drawn.matrix(matrix), new TableSource(description, { part, head })];
      const isAlike = File.description.url === description.url;
      return { File, Table, ...(isAlike && { Difference: new DifferenceSource(File, Table) }) };
    };
    const heads = drawn.heads > 1 && {
      axis: isTurned ? "matrix" : leading.axis,
      count: drawn.heads,
    };
    const text = first && `first wrong: ${placeIn(found.axes.position, first.position)}`;
    this.draw(sources, heads, first && { ...drawn.cellOf(first), text });
  }

  /** Draw the file, with a mark; the other sources, and heads, can be chosen. */
  draw(sources, leading, mark) {
    const choose = (name, head, all = sources(head)) => {
      const names = Object.keys(all);
      const other = (changes) => choose(name, Number(changes.head));
      fill(
        this.pane.choices,
        names.length > 1 && buttons("Shown", names, name, (each) => choose(each, head, all)),
        leading && choices({ parts: [], leading }, new URLSearchParams({ head }), other),
      );
      this.pane.show({
        panels: [{ source: all[name], name }],
        names: ["File", "Table"],
        marks: mark?.head === head ? [mark] : [],
      });
    };
    choose("File", mark?.head ?? 0);
    if (!mark) return;
    this.pane.heatmap.place(mark);
    this.pane.heatmap.window(WINDOW);
  }
}
