// The heat map: tiles of numbers on a canvas, which one pans, zooms and reads with a cursor.

import { axisTicks, line } from "./charts.js";
import { DARK, Scale } from "./colours.js";
import { Tiles } from "./sources.js";
import { partsOf, svg, whole } from "./lib.js";

/** A stride is a power of 3, the largest that keeps a cell at or under so many CSS pixels. */
const CELL_PIXELS = 1.5;
const [TILE_ROWS, TILE_COLUMNS] = [256, 512];
const SMALLEST_SPAN = 8;
const GAP = 8;
/** Means below this part of the scale look like 0. */
const NOTHING = 0.02;
const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const ZOOMS = { "+": 0.5, "=": 0.5, "-": 2, "]": 0.5, "[": 2 };
const POINTER = ["keydown", "wheel", "pointerdown", "pointermove", "pointerup", "pointercancel"];

/** Rows or columns: the part in sight from base + offset on, the cursor, and the stride drawn. */
class Axis {
  /** Show of an axis the window and cursor of another, or all. */
  constructor(labels, most, { cursor = null, base, span, offset } = {}) {
    const { count } = labels;
    Object.assign(this, { labels, count, cursor, stride: 1 });
    this.most = Math.min(Number(count), most);
    if (span) this.set(base, span, offset);
    else this.all();
  }

  /** Show so many from an index on, as far as they exist. Indices are BigInts. */
  set(base, span, offset = 0) {
    this.span = this.fitted(span);
    const carry = Math.floor(offset);
    [this.base, this.offset] = [base + BigInt(carry), offset - carry];
    const room = this.count - BigInt(Math.ceil(this.span));
    if (this.base < 0n) [this.base, this.offset] = [0n, 0];
    else if (this.base >= room) [this.base, this.offset] = [room, Math.ceil(this.span) - this.span];
  }

  fitted(span) {
    return Math.min(Math.max(span, SMALLEST_SPAN), this.most);
  }

  /** Show all; the most that can be, around the cursor, where that is less. */
  all() {
    this.set(this.cursor ?? 0n, this.most, -this.most / 2);
  }

  /** Pan by parts of what is in sight. */
  pan(parts) {
    this.set(this.base, this.span, this.offset + parts * this.span);
  }

  /** Show a part of what is shown, or more; what is at a fraction, or the cursor, stays there. */
  zoom(factor, at = Math.min(Math.max(this.fraction(), 0), 1)) {
    const span = this.fitted(this.span * factor);
    this.set(this.base, span, this.offset + at * (this.span - span));
  }

  /** Return where a place in a cell is: 0 at the left or top edge, 1 at the other. */
  fraction(index = this.cursor ?? this.base, within = 0.5) {
    return (Number(index - this.base) + within - this.offset) / this.span;
  }

  /** Return the index of the cell at a fraction. */
  index(fraction) {
    return this.limit(this.base + BigInt(Math.floor(this.offset + fraction * this.span)));
  }

  limit(index) {
    return index < 0n ? 0n : index < this.count ? index : this.count - 1n;
  }

  /** Put the cursor on a cell, and pan as little as needed to have it in sight. */
  point(index) {
    this.cursor = this.limit(index);
    const [from, to] = [this.fraction(this.cursor, 0), this.fraction(this.cursor, 1)];
    if (from < -1 || to > 2) this.set(this.cursor, this.span, -this.span / 2);
    else if (from < 0 || to > 1) this.pan(from < 0 ? from : to - 1);
  }

  /** In words that it is drawn at a stride; empty where all of it is. */
  get partly() {
    return this.stride > 1 ? `one ${this.labels.axis} in ${whole(this.stride)}` : "";
  }

  /** Choose the stride at which so many pixels show what is in sight. */
  choose(pixels) {
    this.stride = 1;
    while (3 * this.stride * pixels <= CELL_PIXELS * this.span) this.stride *= 3;
  }

  /** Return the windows of tiles of so many cells in sight, and `more` on each side. */
  windows(length, more = 0) {
    const { stride } = this;
    const [step, size] = [BigInt(stride), BigInt(length * stride)];
    const cells = (this.count + step / 2n) / step;
    const [first, last] = [this.base / size - BigInt(more), this.index(1) / size + BigInt(more)];
    const windows = [];
    for (let at = first < 0n ? 0n : first; at <= last; at += 1n) {
      const count = Math.min(length, Number(cells - at * BigInt(length)));
      if (count > 0) windows.push({ start: at * size + step / 2n, count, stride });
    }
    return windows;
  }
}

export class Heatmap {
  /** Make a map; its pane hears `drawn`, `moved` of window or cursor, and `keep` with a line. */
  constructor(pane) {
    Object.assign(this, { pane, panels: [], marks: [] });
    const tiles = new Tiles(() => this.redraw());
    Object.assign(this, { isMean: true, pointers: new Map(), tiles }, partsOf("map"));
    this.again.onclick = () => this.retry();
    this.single.onclick = () => this.setMean(false);
    this.closer.onclick = () => this.window(2048);
    for (const name of POINTER) this.canvas.addEventListener(name, (event) => this[name](event));
    this.element.heatmap = this;
    new ResizeObserver(() => this.redraw()).observe(this.field);
    DARK.addEventListener("change", () => this.redraw());
  }

  /** Show panels `{source, name, label?}` of the same axes, upright with rows along x. */
  show({ panels, isUpright, range = panels[0].source.range, isIndex = false, keeps = false }) {
    const [{ source }] = panels;
    Object.assign(this, { panels, isUpright, range, isIndex, source, scale: null, seen: null });
    const before = keeps ? this : {};
    this.rows = new Axis(source.rows, source.mostRows, before.rows);
    this.columns = new Axis(source.columns, Infinity, before.columns);
    [this.x, this.y] = this.turned(this);
    this.canvas.ariaLabel = `Heat map of ${panels.map(({ name }) => name).join(" and ")}`;
    this.retry();
  }

  retry() {
    this.tiles.failure = null;
    this.redraw();
  }

  /** Return what belongs to x and what belongs to y. */
  turned({ rows, columns }) {
    return this.isUpright ? [rows, columns] : [columns, rows];
  }

  get cursor() {
    return { row: this.rows.cursor, column: this.columns.cursor };
  }

  /** Draw with the next frame. */
  redraw() {
    if (this.panels.length) this.frame ??= requestAnimationFrame(() => this.draw());
  }

  /** Return the boxes of the panels in CSS pixels: one over the other, on one x axis. */
  boxes() {
    const { length } = this.panels;
    const { clientWidth: width, clientHeight } = this.field;
    const height = (clientHeight - GAP * (length - 1)) / length;
    return this.panels.map((_, at) => ({ left: 0, top: at * (height + GAP), width, height }));
  }

  /** Return what to fetch of a source, `more` tiles beyond the edges. */
  wanted(source, more = 0) {
    const across = this.columns.windows(TILE_COLUMNS, more);
    const tile = (rows) => (columns) => {
      const place = [rows.stride, columns.stride, rows.start, columns.start];
      return { key: `${source.id} ${place.join(" ")}`, source, rows, columns };
    };
    return this.rows.windows(TILE_ROWS, more).flatMap((rows) => across.map(tile(rows)));
  }

  draw() {
    this.frame = null;
    const { canvas, field, tiles } = this;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [field.clientWidth * ratio, field.clientHeight * ratio].map(Math.round);
    if (!width || !height) return;
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    const boxes = this.boxes();
    this.x.choose(boxes[0].width);
    this.y.choose(boxes[0].height);
    const wanted = this.panels.map(({ source }) => this.wanted(source));
    this.inSight = wanted.map((all) => all.flatMap(({ key }) => tiles.kept.get(key) ?? []));
    const isReady = this.inSight.flat().length === wanted.flat().length;
    this.measure(this.inSight.flat());
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    context.imageSmoothingEnabled = false;
    this.panels.forEach(({ source }, panel) => {
      const box = Object.values(boxes[panel]).map((each) => each * ratio);
      const isCoarser = (tile) => !isReady && tile.source === source;
      const others = [...tiles.kept.values()].filter(isCoarser);
      others.sort((a, b) => b.rows.stride * b.columns.stride - a.rows.stride * a.columns.stride);
      context.save();
      context.beginPath();
      context.rect(...box);
      context.clip();
      for (const tile of [...others, ...this.inSight[panel]]) this.copy(context, tile, box);
      context.restore();
    });
    const isAhead = isReady && this.source.mostRows === Infinity;
    const near = isAhead ? this.panels.flatMap(({ source }) => this.wanted(source, 1)) : [];
    tiles.want([...wanted.flat(), ...near]);
    this.drawOver(boxes);
    this.tell(isReady);
    this.pane?.drawn();
  }

  /** Set the scale: the given one, or that of the numbers seen so far. */
  measure(tiles) {
    let [low, high] = this.range ?? this.seen ?? [Infinity, -Infinity];
    for (const tile of tiles) {
      tile.show(this.isMean);
      if (!this.range) [low, high] = [Math.min(low, tile.low), Math.max(high, tile.high)];
    }
    if (this.scale?.dark === DARK.matches && `${this.seen}` === `${[low, high]}`) return;
    this.seen = [low, high];
    if (low > high) [low, high] = [0, 0];
    const size = Math.max(-low, high);
    // Indices on both sides of 0 are differences, which have an order.
    this.isIndex &&= low >= 0;
    if (this.isIndex) this.scale = new Scale("index", low, high);
    else if (this.source.isDifference || low * high < 0)
      this.scale = new Scale("signed", -size, size);
    else this.scale = new Scale("ramp", ...(high > 0 ? [low, high] : [high, low]));
  }

  /** Copy a tile to where it belongs; it is painted where that has not been done. */
  copy(context, tile, [left, top, width, height]) {
    const edges = (axis, { start, count, stride }, from, size) => {
      const edge = (cells) => axis.fraction(start, cells * stride - (stride - 1) / 2);
      return [edge(0), edge(count)].map((each) => Math.round(from + each * size));
    };
    const [across, down] = this.turned(tile);
    const [x, right] = edges(this.x, across, left, width);
    const [y, bottom] = edges(this.y, down, top, height);
    if (right <= left || x >= left + width || bottom <= top || y >= top + height) return;
    tile.show(this.isMean);
    const { rows, columns, numbers } = tile;
    if (!tile.canvas || tile.scale !== this.scale)
      tile.canvas = this.scale.paint(numbers, rows.count, columns.count, this.isUpright);
    tile.scale = this.scale;
    context.drawImage(tile.canvas, x, y, right - x, bottom - y);
  }

  /** Draw what lies over the map: labels at its left, cursor, marks of findings, names of panels. */
  drawOver(boxes) {
    const { x, y, isUpright } = this;
    const text = (name, left, top, words) => svg("text", { class: name, x: left, y: top }, words);
    const isIn = (fraction) => fraction >= 0 && fraction <= 1;
    const [across, down] = x.cursor === null ? [NaN, NaN] : [x.fraction(), y.fraction()];
    const parts = boxes.map(({ top, width, height }, panel) => {
      const ticks = y.count > 1n ? axisTicks(y, height / 40) : [];
      const [at, under] = [across * width, down * height];
      const row = isIn(down) && !isUpright ? `M0 ${under}h${width}` : "";
      const { label } = this.panels[panel];
      const marks = this.marks.map((mark) => {
        const from = this.rows.fraction(mark.row, 0);
        const by = from > 0.7 ? -5 : 5;
        const [left, over, end] = isUpright
          ? [from * width, 0, `V${height}`]
          : [0, from * height, `H${width}`];
        const place = isUpright ? [left + by, 16] : [5, over + (by < 0 ? by : 16)];
        const name = text("mark-name", ...place, mark.text);
        name.setAttribute("text-anchor", isUpright && by < 0 ? "end" : "start");
        return isIn(from) && [line("mark", `M${left} ${over}${end}`), name];
      });
      return svg("g", { transform: `translate(0 ${top})` }, [
        ticks.map(({ fraction }) => line("tick", `M-5 ${fraction * height}h5`)),
        ticks.map(({ fraction, text: words }) => text("y-label", -9, fraction * height, words)),
        isIn(across) && line("hair", `M${at} 0v${height}${row}`),
        isIn(across) && isIn(down) && svg("circle", { class: "cursor", cx: at, cy: under, r: 4.5 }),
        marks,
        label && text("panel-name", 6, 18, label),
      ]);
    });
    this.overlay.replaceChildren(...parts);
  }

  /** Say what state the map is in, and why nothing is to be seen. */
  tell(isReady) {
    const { failure } = this.tiles;
    this.element.dataset.state = failure ? "failed" : isReady ? "ready" : "loading";
    this.canvas.ariaBusy = String(!isReady && !failure);
    if (isReady && !performance.getEntriesByName("first heat map").length)
      performance.measure("first heat map", { start: 0 });
    const { stride } = this.rows;
    const least = this.source.isDifference ? 0 : NOTHING * this.scale.high;
    const isFaint = ({ isMean, low, high }) => isMean && Math.max(-low, high) < least;
    const isNothing = isReady && stride > 1 && this.inSight.flat().every(isFaint);
    this.message.hidden = !failure && !isNothing;
    if (this.message.hidden) return;
    const text = failure
      ? `${failure.title}: ${failure.message}`
      : `The mean of ${whole(stride)} ${this.source.rows.axis}s is 0 for every channel: each turns ` +
        "many times in a column.";
    if (this.told.textContent !== text) this.told.textContent = text;
    [this.again.hidden, this.single.hidden, this.closer.hidden] = [!failure, failure, failure];
  }

  setMean(isMean) {
    this.isMean = isMean;
    this.change();
  }

  /** Show so many rows, around the cursor. */
  window(span) {
    this.rows.set(this.rows.cursor, span, -span / 2);
    this.change();
  }

  change() {
    this.redraw();
    this.pane?.moved();
  }

  /** Return row and column of a place on the canvas in CSS pixels; null outside. */
  cellAt(point) {
    const [across, down] = this.fractions(point);
    if (Math.min(across, down) < 0 || Math.max(across, down) >= 1) return null;
    const [row, column] = this.turned({ rows: this.x.index(across), columns: this.y.index(down) });
    return { row, column };
  }

  /** Return the place of a point of the canvas in its panel, as fractions. */
  fractions([x, y]) {
    const [{ width, height }] = this.boxes();
    return [x / width, (y % (height + GAP)) / height];
  }

  /** Return a source's number as it was fetched; undefined if no tile in sight has it. */
  numberOf(source, row, column) {
    const numbers = this.inSight.flat().map((tile) => tile.numberOf(source, row, column));
    return numbers.find((each) => each !== undefined);
  }

  /** Put the cursor on a cell and have it in sight. */
  place({ row, column }) {
    this.rows.point(row);
    this.columns.point(column);
    this.change();
  }

  /** Zoom around a place in fractions, else around the cursor; over query and key, both axes. */
  zoom(factor, at = [], isAcross = false) {
    if (!isAcross || !this.isUpright) this.x.zoom(factor, at[0]);
    if (isAcross || !this.isUpright) this.y.zoom(factor, at[1]);
    this.change();
  }

  all() {
    this.rows.all();
    this.columns.all();
    this.change();
  }

  keep() {
    this.pane?.keep(Number(this.y.cursor));
  }

  pan(x, y = 0) {
    this.x.pan(x);
    this.y.pan(y);
    this.change();
  }

  /** Return the middle of the pointers, x and y, and how far apart they are. */
  held() {
    const [one, other = one] = this.pointers.values();
    const apart = Math.hypot(one[0] - other[0], one[1] - other[1]);
    return [(one[0] + other[0]) / 2, (one[1] + other[1]) / 2, apart];
  }

  pointerdown(event) {
    this.canvas.setPointerCapture(event.pointerId);
    if (!this.pointers.size) this.travel = 0;
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
  }

  pointermove({ pointerId, pointerType, offsetX, offsetY }) {
    if (!this.panels.length) return;
    const cell = pointerType === "mouse" && this.cellAt([offsetX, offsetY]);
    if (!this.pointers.has(pointerId)) return void (cell && this.place(cell));
    const [fromX, fromY, before] = this.held();
    this.pointers.set(pointerId, [offsetX, offsetY]);
    const [x, y, after] = this.held();
    const [{ width, height }] = this.boxes();
    this.travel += Math.abs(fromX - x) + Math.abs(fromY - y);
    this.pan((fromX - x) / width, (fromY - y) / height);
    if (before && after) this.zoom(before / after, this.fractions([x, y]));
  }

  pointerup({ pointerId, shiftKey, offsetX, offsetY }) {
    const isClick = this.pointers.size === 1 && this.travel < 4;
    this.pointers.delete(pointerId);
    const cell = isClick && this.cellAt([offsetX, offsetY]);
    if (cell) this.place(cell);
    if (cell && shiftKey) this.keep();
  }

  pointercancel({ pointerId }) {
    this.pointers.delete(pointerId);
  }

  wheel(event) {
    event.preventDefault();
    const { deltaX, deltaY, shiftKey, ctrlKey, altKey, offsetX, offsetY } = event;
    const isAlong = shiftKey || Math.abs(deltaX) > Math.abs(deltaY);
    const factor = Math.exp(deltaY * (ctrlKey ? 0.01 : 0.002));
    if (isAlong) this.pan((deltaX || deltaY) / this.field.clientWidth);
    else this.zoom(factor, this.fractions([offsetX, offsetY]), altKey);
  }

  keydown(event) {
    const { key, shiftKey, ctrlKey, metaKey, altKey } = event;
    const { x, y } = this;
    const go = (across, down) => {
      const [row, column] = this.turned({ rows: across, columns: down });
      this.place({ row, column });
    };
    const actions = {
      0: () => this.all(),
      p: () => this.keep(),
      Home: () => go(0n, y.cursor),
      End: () => go(x.count, y.cursor),
      PageUp: () => page(-1),
      PageDown: () => page(1),
    };
    const page = (parts) => {
      x.pan(parts);
      go(x.cursor + BigInt(parts * Math.round(x.span)), y.cursor);
    };
    const step = (axis, cells) => axis.cursor + BigInt(cells * axis.stride);
    const move = ([right, down]) =>
      shiftKey ? this.pan(right / 8, down / 8) : go(step(x, right), step(y, down));
    const isKnown = [WAYS, ZOOMS, actions].some((each) => key in each);
    if (ctrlKey || metaKey || altKey || !isKnown || x.cursor === null) return;
    event.preventDefault();
    if (key in WAYS) move(WAYS[key]);
    else if (key in ZOOMS) this.zoom(ZOOMS[key], [], "[]".includes(key));
    else actions[key]();
  }
}
