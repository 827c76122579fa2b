// The view of a table: readout, colour bar, heat map, curves, wavelengths and the vector of a pair.

import { Dial, drawCurves, logChart } from "./charts.js";
import { Heatmap } from "./heatmap.js";
import { Problem, button, bytes, count, fill, h, partsOf } from "./lib.js";
import { real, svg, whole, wholeBelow } from "./lib.js";
import { CopyMenu } from "./snippets.js";
import { ArraySource, TableSource, exactText } from "./sources.js";

/** A table opens with so many rows in sight, one of a single column with all. */
const FIRST_ROWS = 2048;
const KEPT = 3;
/** Where many rows share a column, the number at the cursor is asked for when it rests so long. */
const REST_MILLISECONDS = 70;
const EDGE_WIDTH = 40;
const LEGEND = 64;
const NO_ADDRESS = "The numbers of an image have no address of their own: show the rows.";

/** Return whether rows run along x: positions do, queries and other rows of matrices run down. */
function isUpright({ view }) {
  return !/^(key|dx|column|from channel)$/.test(view?.columns.axis);
}

/** Return the source of a table that the fragment of the address chooses, of so many heads. */
export async function chosenSource(description, view, heads = description.view.leading?.count) {
  const { parts, grid, is_by_columns: isByColumns } = description.view;
  const part = parts.includes(view.get("part")) ? view.get("part") : parts[0];
  const head = Number(wholeBelow(heads ?? 1, view.get("head")));
  const source = new TableSource(description, { part, head });
  if (!grid || !view.has("image")) return source;
  const [lines, cells] = grid.slice(-2);
  const start = wholeBelow(grid.at(-3) ?? 1, view.get("frame")) * BigInt(lines * cells);
  const image = { start: wholeBelow(source.columns.count, view.get("image")), count: 1, stride: 1 };
  const numbers = await source.read({ start, count: lines * cells, stride: 1 }, image);
  const { dtype, range } = source;
  const [down, across] = isByColumns ? ["column", "row"] : ["row", "column"];
  const axes = { rows: { axis: down, count: lines }, columns: { axis: across, count: cells } };
  return new ArraySource(numbers, { ...axes, dtype, range, part });
}

/** Return a row of buttons of which one is pressed. */
export function buttons(label, names, chosen, choose) {
  const each = (name) => {
    const made = button(name, () => choose(name), "");
    return Object.assign(made, { ariaPressed: String(name === chosen) });
  };
  return h("div", { class: "switch", role: "group", "aria-label": label }, names.map(each));
}

/** Return what chooses among arrays, heads and pictures; a change calls back with the fragment. */
export function choices({ parts, leading, grid, columns }, view, changed) {
  const number = (name, text, limit) => {
    const onchange = () => input.reportValidity() && changed({ [name]: input.value });
    const value = String(wholeBelow(limit, view.get(name)));
    const input = h("input", { type: "number", min: "0", max: String(limit - 1), value, onchange });
    return h("label", { class: "choice" }, `${text} `, input, ` of ${whole(limit)}`);
  };
  const isImage = view.has("image");
  const picture = (kind) => changed({ image: kind === "Image" ? (view.get("ch") ?? "0") : null });
  return [
    parts.length > 1 &&
      buttons("Part", parts, view.get("part") ?? parts[0], (part) => changed({ part })),
    leading && number("head", leading.axis, Number(leading.count)),
    grid && buttons("Picture", ["Rows", "Image"], isImage ? "Image" : "Rows", picture),
    grid && isImage && number("image", "channel", Number(columns.count)),
    grid?.length > 2 && isImage && number("frame", "frame", grid[0]),
  ].filter(Boolean);
}

/** Return a whole number from text, as −4, 4503, 1e6 or 2^52+7; null of anything else. */
function numberOf(text) {
  const pattern = /^(-?)(\d+)(?:\^(\d{1,2})|e(\d{1,2}))?([+-]\d+)?$/;
  const match = pattern.exec(text.replace(/[\s,_]/g, "").replace("−", "-"));
  if (!match) return null;
  const [, sign, number, power = 1, zeros = 0, more = 0] = match;
  return BigInt(`${sign}1`) * BigInt(number) ** BigInt(power) * 10n ** BigInt(zeros) + BigInt(more);
}

/** A heat map with all that belongs to it. Tables, comparisons and files are shown in one. */
export class MatrixPane {
  /** Make a pane; `look` gets changes of the fragment, where null removes a name. */
  constructor(look = () => {}) {
    Object.assign(this, { look, kept: [], states: {} }, partsOf("matrix"));
    const map = (this.heatmap = new Heatmap(this));
    this.dial = new Dial((fraction) => {
      const { rows, cursor } = map;
      const row = rows.base + BigInt(Math.round(fraction * (Math.ceil(rows.span) - 1)));
      map.place({ ...cursor, row });
    });
    this.mean.onclick = () => map.setMean(!map.isMean);
    this.out.onclick = () => map.zoom(2);
    this.into.onclick = () => map.zoom(0.5);
    this.all.onclick = () => map.all();
    this.edge.before(map.element);
    this.keeper.onclick = () => map.keep();
    this.where.onsubmit = () => this.go();
    this.overview.onpointerdown = (event) => this.jump(event);
    this.overview.onpointermove = (event) => event.buttons && this.jump(event);
    this.legend.before(this.dial.element);
    this.fields = () => [...this.choices.querySelectorAll("button, input")];
    const onfocusin = () => (this.chosen = this.fields().indexOf(document.activeElement));
    const onfocusout = ({ relatedTarget }) => relatedTarget && (this.chosen = -1);
    this.choices = h("div", { class: "choices", onfocusin, onfocusout });
  }

  /** Show panels as Heatmap.show does, marks {row, column, text}, width / height of images. */
  show({ panels, marks = [], view, aspect = null, names = ["A", "B"], ...chosen }) {
    const [{ source }] = panels;
    const map = this.heatmap;
    const axes = [source.rows, source.columns].map((each) => `${each.axis} ${each.count}`).join();
    const keeps = axes === this.axes;
    const fragment = view ?? new URLSearchParams();
    const { description } = source;
    const upright = chosen.isUpright ?? (!aspect && isUpright(description));
    Object.assign(this, { source, description, axes, names, states: {} });
    Object.assign(map, { marks, isMean: fragment.get("mode") !== "single" });
    const isIndex = Boolean(description.is_index) && !source.isDifference;
    map.show({ panels, isUpright: upright, isIndex, keeps });
    if (view || !keeps) this.start(fragment);
    const lines = (fragment.get("channels") ?? "").split(",");
    const kept = lines.map((each) => Number(wholeBelow(map.y.count, each, -1n)));
    this.kept = kept.filter((each) => each >= 0).slice(0, KEPT);
    const pair = source.channels.find(Boolean);
    const hasPairs = pair && upright;
    this.dial.element.hidden = !hasPairs || source.origins[0].placesOf(pair).length < 2;
    this.wavelengths.hidden = !hasPairs || !description.frequencies;
    this.edge.toggleAttribute("hidden", !source.isDifference || !upright);
    this.element.classList.toggle("square", aspect !== null);
    this.element.style.setProperty("--aspect", aspect ?? 1);
    this.axisNames.textContent = `${map.y.labels.axis} ↓  ${map.x.labels.axis} →`;
    this.goalName.textContent = `Go to ${source.rows.axis.replace("to ", "")}`;
    this.goalName.parentElement.hidden = source.rows.count === 1n;
    // The choices are made anew after each: the focus stays.
    if (document.activeElement === document.body) this.fields()[this.chosen]?.focus();
  }

  /** Put window and cursor where the fragment says, or where a table begins. */
  start(view) {
    const { rows, columns, isUpright: upright } = this.heatmap;
    const number = (name, otherwise) => wholeBelow(Infinity, view.get(name), BigInt(otherwise));
    const first = columns.count > 1n ? FIRST_ROWS : rows.count;
    rows.set(number("at", 0), Number(number("rows", first)));
    columns.set(number("col", 0), Number(number("cols", upright ? columns.count : FIRST_ROWS)));
    rows.cursor = rows.limit(number("row", rows.index(1 / 3)));
    columns.cursor = columns.limit(number("ch", columns.index(1 / 6)));
  }

  /** Write window and cursor into the fragment. */
  moved() {
    const { rows, columns, isMean } = this.heatmap;
    const [span, width] = [rows, columns].map((axis) => Math.round(axis.span));
    const isAll = columns.span === Number(columns.count);
    const across = isAll ? { col: null, cols: null } : { col: columns.base, cols: width };
    const cursor = { row: rows.cursor, ch: columns.cursor };
    this.look({ at: rows.base, rows: span, ...cursor, ...across, mode: isMean ? null : "single" });
  }

  /** Keep the curve of a channel, or let it go. */
  keep(line) {
    const others = this.kept.filter((each) => each !== line);
    this.kept = others.length < this.kept.length ? others : [...others, line].slice(0, KEPT);
    this.look({ channels: this.kept.join() || null });
    this.heatmap.redraw();
  }

  /** Put the cursor on the row that is typed; say beside the field if there is none. */
  go() {
    const { rows } = this.source;
    const label = numberOf(this.goal.value);
    const row = label === null ? null : rows.find(label);
    const [first, last] = [rows.at(0n), rows.at(rows.count - 1n)].map(whole);
    const none = `No such ${rows.axis}: there are ${first} to ${last}.`;
    this.refusal.textContent = row === null ? none : "";
    this.goal.ariaInvalid = row === null ? "true" : null;
    if (row !== null) this.heatmap.place({ ...this.heatmap.cursor, row });
  }

  /** Show the window around where the overview is pressed. */
  jump({ clientX, pointerId }) {
    this.overview.setPointerCapture(pointerId);
    const { x } = this.heatmap;
    const { left, width } = this.overview.getBoundingClientRect();
    const parts = Math.round(Math.min(Math.max((clientX - left) / width, 0), 1) * 2 ** 20);
    x.set((x.count * BigInt(parts)) >> 20n, x.span, -x.span / 2);
    this.heatmap.change();
  }

  /** Bring what is around the map up to date with what is drawn. */
  drawn() {
    const { x } = this.heatmap;
    const share = x.span / Number(x.count);
    const from = Number((x.base * 1000000n) / x.count) / 1e6;
    this.thumb.style.left = `${100 * Math.min(from, 1 - share)}%`;
    this.thumb.style.width = `${100 * share}%`;
    this.drawScale();
    this.legend.hidden = !this.heatmap.isIndex;
    this.rail.hidden = [...this.rail.children].every((each) => each.hidden);
    if (this.source.isDifference) this.drawDifferences();
    else this.drawCurves();
    if (!this.wavelengths.hidden) this.drawWavelengths();
    if (!this.legend.hidden) this.drawLegend();
    this.read();
  }

  /** Return true where something differs from when the part of this name was drawn. */
  isNew(name, ...state) {
    const text = state.join();
    const isSame = this.states[name] === text;
    this.states[name] = text;
    return !isSame;
  }

  /** Return in words that means are drawn; empty where the numbers of single rows are. */
  meanText() {
    const { isMean, rows } = this.heatmap;
    const isOfMany = this.source.hasMeans && isMean && rows.stride > 1;
    return isOfMany ? `mean of ${whole(rows.stride)} ${rows.labels.axis}s` : "";
  }

  drawScale() {
    const { scale, isMean, rows, columns } = this.heatmap;
    const { hasMeans } = this.source;
    const mean = this.meanText();
    const most = rows.most < Number(rows.count) && `at most ${whole(rows.most)} rows at once`;
    this.note.textContent = [mean || rows.partly, columns.partly, most].filter(Boolean).join(", ");
    this.mean.hidden = !hasMeans;
    this.mean.ariaPressed = String(isMean);
    const { kind, low, high, dark } = scale;
    if (!this.isNew("scale", kind, low, high, dark)) return;
    this.scale.hidden = kind === "index";
    const sign = (number) => (number > 0 && kind === "signed" ? "+" : "") + real(number, 5);
    [this.low.textContent, this.high.textContent] = [low, high].map(sign);
    this.bar.ariaLabel = `Colours from ${sign(low)} to ${sign(high)}`;
    // An index has a colour of its own, and nothing is between indices.
    const place = kind === "index" ? Math.round : Number;
    const number = (_, at) => place(low + ((high - low) * at) / 95);
    const numbers = Float64Array.from({ length: 96 }, number);
    this.bar.getContext("2d").drawImage(scale.paint(numbers, 1, 96, false), 0, 0);
  }

  /** Return the points of a line of the map along x: fractions and numbers. */
  line(index, panel = 0) {
    const { x, isUpright: upright, isIndex, inSight } = this.heatmap;
    const points = inSight[panel].flatMap((tile) => {
      const [along, across] = this.heatmap.turned(tile);
      const { start, stride, count: lines } = across;
      const line = Math.floor((index - Number(start) + (stride - 1) / 2) / stride);
      if (line < 0 || line >= lines) return [];
      const [first, step] = upright ? [line, lines] : [line * along.count, 1];
      const place = (each, within) => x.fraction(along.start, each * along.stride + within);
      // Between indices there is nothing: they are drawn as steps.
      const parts = isIndex ? [0.001, 0.999] : [0.5];
      const points = (_, each) =>
        parts.map((within) => [place(each, within), tile.numbers[first + each * step]]);
      return Array.from({ length: along.count }, points).flat();
    });
    return points.filter(([at]) => at >= 0 && at <= 1).sort((a, b) => a[0] - b[0]);
  }

  drawCurves() {
    const { x: axis, y, scale, panels } = this.heatmap;
    const current = Number(y.cursor);
    const isOne = panels.length === 1;
    const others = this.kept.filter((each) => isOne && each !== current);
    const lines = [...panels.keys()].map((panel) => [current, panel]);
    const all = [...lines, ...others.map((line) => [line, 0])];
    const series = all.map(([line, panel], at) => ({ points: this.line(line, panel), series: at }));
    const [low, high] = [scale.low, scale.high].sort((a, b) => a - b);
    drawCurves(this.curves, { axis, series, low, high });
    const isKept = this.kept.includes(current);
    this.keeper.hidden = !isOne || y.count === 1n;
    this.keeper.ariaPressed = String(isKept);
    this.keeper.disabled = !isKept && this.kept.length === KEPT;
    this.keeper.textContent = this.keeper.disabled ? `${KEPT} are kept` : "Keep";
    const mean = this.meanText();
    if (!this.isNew("title", all, isKept, y.labels.axis, isOne, mean)) return;
    const name = (line) => whole(y.labels.at(line));
    const drop = (line, at) => {
      const onclick = () => {
        this.keep(line);
        this.keeper.focus();
      };
      const dropper = button(`${name(line)} ×`, onclick, `quiet name-${at + 1}`);
      return Object.assign(dropper, { ariaLabel: `Let ${name(line)} go` });
    };
    const both = ["A", "B"].map((each, at) => h("b", { class: `name-${at}` }, each));
    const own = y.count > 1n && h("b", { class: isOne && "name-0" }, name(current));
    const names = [h("b", {}, y.labels.axis), own, isOne ? others.map(drop) : both, mean];
    fill(this.title, names);
  }

  /** Draw the largest difference at each place of x, and of each channel along the right edge. */
  drawDifferences() {
    const { x: axis, y, inSight, field } = this.heatmap;
    const [across, down] = [new Map(), new Map()];
    const merge = (map, along, { start, stride }, values) =>
      values.forEach((value, at) => {
        const place = along.fraction(start, at * stride + 0.5);
        if (place >= 0 && place <= 1) map.set(place, Math.max(map.get(place) ?? 0, value));
      });
    for (const tile of inSight[0]) {
      const [ofRows, ofColumns] = tile.largest();
      const [alongX, alongY] = this.heatmap.turned(tile);
      const [mostX, mostY] = this.heatmap.turned({ rows: ofRows, columns: ofColumns });
      merge(across, axis, alongX, mostX);
      merge(down, y, alongY, mostY);
    }
    const most = Math.max(0, ...down.values());
    const high = 10 ** Math.ceil(Math.log10(most || 1));
    const low = high * 1e-6;
    const found = most ? real(most, 6) : "none";
    const drawn = axis.partly && ` drawn (${axis.partly})`;
    const where = `of each ${axis.labels.axis}${drawn}, the largest in sight: ${found}`;
    this.keeper.hidden = true;
    if (this.isNew("title", where))
      this.title.replaceChildren(h("b", {}, "Largest difference"), ` ${where}`);
    const points = [...across].sort((a, b) => a[0] - b[0]);
    drawCurves(this.curves, { axis, series: [{ points, series: "most" }], low, high, isLog: true });
    const height = field.clientHeight;
    const half = (y.stride / y.span / 2) * height;
    const bars = [...down].map(([place, value]) => {
      const length = Math.max(0, (EDGE_WIDTH * Math.log10(value / low)) / 6);
      return `M0 ${place * height - half}h${length}v${2 * half}h${-length}`;
    });
    const about = svg("title", {}, `Largest difference of each ${y.labels.axis}`);
    this.edge.replaceChildren(about, svg("path", { d: bars.join("") }));
  }

  drawWavelengths() {
    const { columns, rows } = this.heatmap;
    const [{ wavelengths, unscaledWavelengths, axes, channels }, other] = this.source.origins;
    const marker = channels[columns.cursor]?.pair;
    const [from, to] = [0, 1].map((each) => Number(rows.labels.at(rows.index(each))));
    const [width, window] = [this.wavelengths.clientWidth - 24, Math.abs(to - from)];
    if (!wavelengths || !this.isNew("wavelengths", marker, window, width)) return;
    const series = [{ values: wavelengths, axes, series: other ? 0 : undefined }];
    if (other) series.push({ values: other.wavelengths ?? [], series: 1, axes: other.axes });
    else if (unscaledWavelengths) series.push({ values: unscaledWavelengths, series: 2, axes });
    const trained = Number(this.description.trained_length);
    const by = this.description.turns_by;
    const lines = by === "position" ? [{ value: window, text: "window" }] : [];
    if (trained) lines.push({ value: trained, text: `trained ${whole(trained)}` });
    const [first, last] = [wavelengths[0], wavelengths.at(-1)].map((each) => real(each));
    const label = `Wavelength of each pair, from ${first} to ${last} ${by}s`;
    const chart = logChart({ series, lines, marker, width, height: 174, label });
    const [title] = this.wavelengths.children;
    title.lastChild.textContent = `${by}s a turn`;
    this.wavelengths.replaceChildren(title, chart);
  }

  drawLegend() {
    const { inSight, scale } = this.heatmap;
    const seen = (tile) => (tile.indices ??= [...new Set(tile.numbers)]);
    const indices = [...new Set(inSight.flat().flatMap(seen))].sort((a, b) => a - b);
    if (!this.isNew("legend", scale.dark, indices)) return;
    const swatch = (index) => {
      const box = h("i", {});
      box.style.backgroundColor = `rgb(${scale.colours[scale.step(index)]})`;
      return h("li", {}, box, String(index));
    };
    const [title, list, rest] = this.legend.children;
    const more = indices.length - LEGEND;
    title.lastChild.textContent = `${whole(indices.length)} in sight`;
    list.replaceChildren(...indices.slice(0, LEGEND).map(swatch));
    rest.textContent = more > 0 ? `and ${whole(more)} more` : "";
  }

  /** Say what is under the cursor: at once where single rows are drawn, else when it rests. */
  read() {
    const { cursor, panels } = this.heatmap;
    const sources = panels.flatMap(({ source }) => source.origins);
    const [{ wavelengths, channels }] = sources;
    const pair = channels[cursor.column];
    const placesOf = (from) => [[from, cursor.column], ...(pair ? from.placesOf(pair) : [])];
    const places = sources.map(placesOf);
    const number = ([from, column]) => this.heatmap.numberOf(from, cursor.row, BigInt(column));
    const numbers = places.map((all) => all.map(number));
    const isThere = !numbers.flat().includes(undefined);
    const ids = sources.map(({ id }) => id);
    if (!this.isNew("readout", cursor.row, cursor.column, isThere, !wavelengths, ids)) return;
    clearTimeout(this.resting);
    this.say(sources, pair, isThere ? numbers : null);
    const ask = () => this.ask(sources, pair, places, cursor);
    if (!isThere) this.resting = setTimeout(ask, REST_MILLISECONDS);
  }

  /** Ask for the numbers at the cursor alone. */
  async ask(sources, pair, places, { row, column }) {
    const window = (start) => ({ start: BigInt(start), count: 1, stride: 1 });
    const one = async ([from, index]) => (await from.read(window(row), window(index)))[0];
    const isHere = () => row === this.heatmap.cursor.row && column === this.heatmap.cursor.column;
    try {
      const numbers = await Promise.all(places.map((all) => Promise.all(all.map(one))));
      if (isHere()) this.say(sources, pair, numbers);
    } catch (error) {
      if (isHere()) this.readout.append(h("span", {}, error.message));
    }
  }

  /** Write the readout and turn the dial; `numbers` are value, cosine and sine of each source. */
  say(sources, pair, numbers) {
    const { rows, columns, range } = this.heatmap;
    const [{ wavelengths, axes }] = sources;
    const item = (name, value, unit = "") => h("span", {}, `${name} `, h("b", {}, value), unit);
    const place = (axis) => item(axis.labels.axis, whole(axis.labels.at(axis.cursor)));
    const by = this.description.turns_by ?? "position";
    const unitOf = (part) =>
      /freq/.test(part) ? ` rad a ${by}` : part === "wavelength" ? ` ${by}s` : "";
    const values = sources.map(({ dtype, part }, at) => {
      const text = numbers ? exactText(numbers[at][0], dtype) : "…";
      const name = sources.length > 1 ? `${this.names[at]} ` : "";
      return h("span", { class: !numbers && "late" }, name, h("code", {}, text), unitOf(part));
    });
    const [a, b] = (numbers ?? []).map(([value]) => Number(value));
    const unit = ` ${by}s${axes ? ` along axis ${axes[pair?.pair]}` : ""}`;
    const items = [
      this.description.axes?.length !== 0 && place(rows),
      columns.count > 1n && place(columns),
      ...values,
      b !== undefined && item(this.names.join(" − "), real(a - b, 7)),
      pair &&
        wavelengths &&
        item(sources[1] ? `λ of ${this.names[0]}` : "λ", real(wavelengths[pair.pair]), unit),
    ];
    fill(this.readout, items);
    if (this.dial.element.hidden || !pair) return;
    const position = whole(rows.labels.at(rows.cursor));
    const last = Math.max(Math.ceil(rows.span) - 1, 1);
    const fraction = Math.min(Math.max(Number(rows.cursor - rows.base) / last, 0), 1);
    const pairs = (numbers ?? []).filter((each) => each.length > 2 && each.every(isFinite));
    const vectors = pairs.map(([, cosine, sine]) => ({ cosine, sine }));
    const [steps, radius] = [Math.min(last, 10000), range?.[1] ?? 1];
    const about = { pair: pair.pair, position, fraction, steps, radius, vectors };
    this.dial.show({ ...about, names: this.names });
  }

  /** Return address and windows of what is in sight, in any format; throws Problem of images. */
  window(format) {
    const cells = ({ base, span, offset, count: all, stride }) => {
      const length = Math.min(Math.ceil(span + offset), Number(all - base));
      return { start: base, count: Math.ceil(length / stride), stride };
    };
    const [rows, columns] = [cells(this.heatmap.rows), cells(this.heatmap.columns)];
    const [source] = this.source.origins;
    if (!source.address) throw new Problem(0, { title: "Nothing to copy", detail: NO_ADDRESS });
    return { url: source.address(rows, columns, format), rows, columns };
  }
}

/** A table at its address. */
export class TableView {
  constructor(app) {
    Object.assign(this, { app }, partsOf("table"));
    this.pane = new MatrixPane((changes) => app.look(changes));
    this.headline.append(this.pane.choices, new CopyMenu(app, this).element);
    this.element.append(this.pane.element);
  }

  /** Show the table of a place; throws the Problem that the server has with it. */
  async show(place) {
    const turn = (this.turn = {});
    const { view } = place;
    const description = await this.app.describe(place.url);
    const source = await chosenSource(description, view);
    if (turn !== this.turn || place !== this.app.place) return;
    this.description = description;
    const { arrays, formats, axes } = description;
    const shapes = arrays.map(({ shape }) => shape.map(count).join(" × ") || "one number");
    this.shape.textContent = [...new Set(shapes)].join(", ");
    this.shape.title = axes.join(" × ");
    const size = arrays.reduce((sum, each) => sum + Number(each.bytes), 0);
    const names = arrays.length > 1 ? `${arrays.map(({ name }) => name).join(", ")} · ` : "";
    const dtypes = [...new Set(arrays.map(({ dtype }) => dtype))].join(", ");
    this.facts.textContent = `${names}${dtypes} · ${bytes(size)}`;
    const link = ({ extension, url }) => h("a", { href: url, download: true }, extension);
    this.formats.replaceChildren(...formats.map(link));
    const changed = (changes) => {
      this.app.look(changes);
      this.show(place);
    };
    // An array of another shape is a table of its own.
    const others = arrays.filter((_, at) => shapes[at] !== shapes[0]);
    const own = ({ name, url }) => h("a", { class: "outlined button", href: url }, name);
    const chosen = [...choices(description.view, view, changed), ...others.map(own)];
    this.pane.choices.replaceChildren(...chosen);
    const panels = [{ source, name: arrays[0].name }];
    const { rows, columns } = source;
    const upright = rows.axis === "column" || undefined;
    const [x, y] = (upright ? [rows, columns] : [columns, rows]).map((each) => Number(each.count));
    const aspect = source.numbers && x / y;
    this.element.hidden = false;
    this.pane.show({ panels, view, aspect, isUpright: upright });
  }
}
