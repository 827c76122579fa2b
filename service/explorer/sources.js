// Windows of numbers: of a table on the server, of an array in memory, of two that are compared.

import { isMasked } from "./colours.js";
import { Problem, cutOff, frequenciesAt, once, request } from "./lib.js";

/** Numbers and painted tiles are kept up to so many bytes. */
const TILE_BYTES = 64e6;
/** Where rows cannot be selected, consecutive ones up to so many bytes are in sight. */
const SIGHT_BYTES = 16e6;
const ARRAYS = { float64: Float64Array, float32: Float32Array, int64: BigInt64Array };
Object.assign(ARRAYS, { int32: Int32Array, uint32: Uint32Array, int16: Int16Array });
Object.assign(ARRAYS, { int8: Int8Array, uint8: Uint8Array, bool: Uint8Array });

/** Return the numbers of little-endian bytes: BigInts of int64, else numbers. */
export function decode(buffer, dtype) {
  if (dtype === "float16") return Float32Array.from(new Float16Array(buffer));
  if (dtype === "bfloat16")
    return new Float32Array(Uint32Array.from(new Uint16Array(buffer), (bits) => bits << 16).buffer);
  if (!ARRAYS[dtype]) throw new Problem(0, { detail: `The page does not draw ${dtype}.` });
  return new ARRAYS[dtype](buffer);
}

/** Return the shortest decimal that reads back as this number; its signs are minus signs. */
export function exactText(value, dtype) {
  const short = (digits) => Number(value.toPrecision(digits));
  const isSame = (digits) => Math.fround(short(digits)) === value;
  const isShort = /float(16|32)$/.test(dtype);
  const number = isShort ? short([1, 2, 3, 4, 5, 6, 7, 8].find(isSame) ?? 9) : value;
  return String(number).replaceAll("-", "−");
}

const signOf = (step) => (step < 0n ? -1n : 1n);

/** The numbers that rows or columns stand for: equidistant ones, or runs of them as listed. */
class Labels {
  constructor({ axis, count, first = 0, step = 1, values = null }) {
    const text = values ?? `${first},${step}`;
    Object.assign(this, { axis, count: BigInt(count), isEven: !values, text });
    const even = { first: BigInt(first), step: BigInt(step), count: this.count };
    this.runs = values ? values.split(",").map(runOf) : [even];
    let before = 0n;
    for (const run of this.runs) {
      run.before = before;
      before += run.count;
    }
  }

  /** Return the label of an index: a BigInt, or the text of a fraction. */
  at(index) {
    const { first, step, before } = this.runs.findLast((run) => run.before <= index);
    return step ? first + (BigInt(index) - before) * step : first;
  }

  /** Return the index of a label; null if there is none. */
  find(label) {
    for (const { first, step, count, before } of this.runs) {
      const index = step ? (label - first) / step : -1n;
      if (index >= 0n && index < count && first + index * step === label) return before + index;
    }
    return null;
  }

  /** Return true where these labels and others are the same as far as both go. */
  agrees(other) {
    if (this.text === other.text) return true;
    const least = this.count < other.count ? this.count : other.count;
    // Between the ends of runs both are linear.
    const runs = [...this.runs, ...other.runs];
    const ends = runs.flatMap(({ before, count }) => [before, before + count - 1n]);
    const common = [...ends.filter((at) => at < least), least - 1n];
    return common.every((at) => this.at(at) === other.at(at));
  }

  /** Return the value of a parameter that selects a window. */
  select({ start, count, stride }) {
    const step = BigInt(stride);
    const each = (_, at) => this.at(start + BigInt(at) * step);
    if (!this.isEven) return Array.from({ length: count }, each).join();
    const by = step * this.runs[0].step;
    return `${this.at(start)}:${this.at(start) + BigInt(count - 1) * by + signOf(by)}:${by}`;
  }
}

/** Return a run of labels from "first:end:step" or one label; the step of a fraction is null. */
function runOf(text) {
  const [from, end, stride = 1] = text.split(":");
  if (/[^-\d]/.test(from)) return { first: from, step: null, count: 1n };
  const [first, step] = [BigInt(from), BigInt(stride)];
  return { first, step, count: end ? (BigInt(end) - first + step - signOf(step)) / step : 1n };
}

/** Return the pair, axis and part of each column, none of most: of all of them if `part` is given. */
function channelsOf(runs, part, columns) {
  const known = (runs ?? []).filter(({ pair }) => pair !== null);
  const ofRun = ({ start, step, count, pair, pair_step: by, ...own }) => {
    const channel = (at) => ({ pair: pair + at * by, axis: own.axis, part: part ?? own.part });
    return Array.from({ length: count }, (_, at) => [start + at * step, channel(at)]);
  };
  const all = new Map(known.flatMap(ofRun));
  const column = (_, at) => all.get(Number(columns.at(at)));
  return all.size ? Array.from({ length: Number(columns.count) }, column) : [];
}

let made = 0;

/** An array in memory: of a file, of the answer to a POST, or one channel of a grid. */
export class ArraySource {
  /** Make one of numbers, row by row; rows and columns are {axis, count, …} as of /describe. */
  constructor(numbers, { rows, columns, dtype, description = {}, part = null, range = null }) {
    Object.assign(this, { id: (made += 1), numbers, dtype, description, part, range });
    Object.assign(this, { hasMeans: false, mostRows: Infinity, origins: [this] });
    [this.rows, this.columns] = [new Labels(rows), new Labels(columns)];
    const own = /^(cos|sin)$/.test(part) ? part : null;
    this.channels = channelsOf(description.channels, own, this.columns);
  }

  /** Return where cosine and sine of a pair are: [source, column] of each that is there. */
  placesOf({ pair, axis }) {
    const isIn = (part) => (each) =>
      each?.pair === pair && each.axis === axis && each.part === part;
    const columns = ["cos", "sin"].map((part) => this.channels.findIndex(isIn(part)));
    return columns.filter((column) => column >= 0).map((column) => [this, column]);
  }

  /** Return the numbers of windows `{start, count, stride}` of rows and of columns, row by row. */
  async read(rows, columns) {
    return picked(this.numbers, Number(this.columns.count), rows, columns);
  }
}

/** Return windows of the rows and columns of a matrix of so many columns. */
function picked(numbers, width, rows, columns) {
  if (numbers.length === rows.count * columns.count) return numbers;
  const result = new numbers.constructor(rows.count * columns.count);
  const place = ({ start, stride }, at) => Number(start) + at * stride;
  for (let row = 0, to = 0; row < rows.count; row += 1) {
    const from = place(rows, row) * width;
    for (let column = 0; column < columns.count; column += 1, to += 1)
      result[to] = numbers[from + place(columns, column)];
  }
  return result;
}

/** A table on the server, as a matrix of rows and columns. */
export class TableSource extends ArraySource {
  /** Make the source of one part and one head of a table, by the answer of /describe. */
  constructor(description, { part = description.view.parts[0], head = 0 } = {}) {
    const { view, frequencies } = description;
    const { dtype = view.dtype } = description.arrays.find(({ name }) => name === part) ?? {};
    super(null, { ...view, dtype, description, part, range: description.value_range });
    Object.assign(this, { view, head, itemBytes: ARRAYS[dtype]?.BYTES_PER_ELEMENT ?? 2 });
    this.hasMeans = Boolean(frequencies) && view.is_even && this.channels.length > 0;
    const most = SIGHT_BYTES / (this.itemBytes * Number(this.columns.count));
    if (!view.rows.parameter) this.mostRows = Math.max(1, Math.floor(most));
    this.frequencies = once(() => this.load(description));
  }

  /** Fetch the frequencies of the pairs, the axis of a grid that each is of, and unscaled ones. */
  async load({ frequencies, unscaled_frequencies: unscaled }) {
    const urls = [frequencies, unscaled].map((url) => url && frequenciesAt(url));
    const [own, before] = await Promise.all(urls);
    const { radians, wavelength, axis } = own ?? {};
    const unscaledWavelengths = before?.wavelength;
    Object.assign(this, { radians, wavelengths: wavelength, axes: axis, unscaledWavelengths });
  }

  /** Return the means of as many rows as the stride, of those in their middles. */
  means(middles, { stride }, columns) {
    const gain = (_, at) => {
      const { pair } = this.channels[Number(columns.start) + at * columns.stride] ?? {};
      const half = ((this.radians[pair] ?? 0) * Number(this.view.rows.step)) / 2;
      const below = stride * Math.sin(half);
      return Math.abs(below) < 1e-9 ? 1 : Math.sin(stride * half) / below;
    };
    const gains = Array.from({ length: columns.count }, gain);
    return Float32Array.from(middles, (value, at) => value * gains[at % columns.count]);
  }

  placesOf({ pair, axis }) {
    const places = super.placesOf({ pair, axis });
    if (!places.length || !this.view.parts.length) return places;
    const of = (part) => Object.assign(Object.create(this), { part });
    return ["cos", "sin"].map((part) => [part === this.part ? this : of(part), places[0][1]]);
  }

  /** Return the address of windows of rows and of columns, in any format. */
  address(rows, columns, format = "bin") {
    const { url, parts, leading, rows: down, columns: across } = this.view;
    const isWhole = columns.stride === 1 && BigInt(columns.count) === this.columns.count;
    // Channels are all of them unless they are selected; keys are then as many as queries.
    const isAll =
      isWhole && across.parameter === "channels" && !this.description.parameters.channels;
    const more = [
      parts.length && ["part", this.part],
      leading?.parameter && [leading.parameter, new Labels(leading).at(this.head)],
      down.parameter && [down.parameter, this.rows.select(rows)],
      across.parameter && !isAll && [across.parameter, this.columns.select(columns)],
    ];
    const query = more.filter(Boolean).map(([name, value]) => `&${name}=${value}`);
    return url.replace(".bin", `.${format}`) + query.join("");
  }

  async read(rows, columns, signal) {
    const { leading, rows: down, columns: across } = this.view;
    const { count, stride } = rows;
    const width = across.parameter ? columns.count : Number(this.columns.count);
    const height = down.parameter ? count : (count - 1) * stride + 1;
    const isStacked = leading && !leading.parameter;
    const each = down.parameter ? BigInt(height) : this.rows.count;
    const first = (isStacked ? BigInt(this.head) * each : 0n) + (down.parameter ? 0n : rows.start);
    const size = BigInt(width * this.itemBytes);
    const [start, end] = [first * size, (first + BigInt(height)) * size];
    const headers = { Accept: "*/*" };
    if (isStacked || !down.parameter) headers.Range = `bytes=${start}-${end - 1n}`;
    const response = await request(this.address(rows, columns), { signal, headers });
    const body = await response.arrayBuffer();
    const isWhole = headers.Range && response.status === 200;
    const bytes = isWhole ? body.slice(Number(start), Number(end)) : body;
    if (bytes.byteLength !== Number(end - start)) throw cutOff();
    const numbers = decode(bytes, this.dtype);
    const own = { start: 0, count, stride: down.parameter ? 1 : stride };
    const sent = across.parameter ? { ...columns, start: 0, stride: 1 } : columns;
    return picked(numbers, width, own, sent);
  }
}

/** The difference of the rows and columns that two sources have in common. */
export class DifferenceSource {
  constructor(one, other) {
    const { dtype, channels, description } = one;
    const origins = [one, other];
    const least = (name) => (one[name].count < other[name].count ? one : other)[name].count;
    const common = (name) => Object.assign(Object.create(one[name]), { count: least(name) });
    Object.assign(this, { id: (made += 1), isDifference: true, origins, dtype, channels });
    Object.assign(this, { description, rows: common("rows"), columns: common("columns") });
    this.hasMeans = origins.every((each) => each.hasMeans);
    this.mostRows = Math.min(...origins.map((each) => each.mostRows));
    this.frequencies = () => Promise.all(origins.map((each) => each.frequencies?.()));
  }
}

/** Return a − b; 0 of two equal infinities, as masks are. */
const difference = (a, b) => (a === b ? 0 : Number(a) - Number(b));

/** A window of one source at one stride: `raw` of each of its origins, and numbers as shown. */
class Tile {
  constructor({ source, rows, columns }, raw) {
    const shown = rows.count * columns.count * 12;
    const bytes = raw.reduce((sum, each) => sum + each.byteLength, shown);
    Object.assign(this, { source, rows, columns, raw, bytes });
  }

  /** Make the numbers to be shown: of single rows, or means of as many as the stride. */
  show(isWanted) {
    const { source, rows, columns } = this;
    const isMean = isWanted && rows.stride > 1 && source.hasMeans;
    if (this.isMean === isMean) return;
    Object.assign(this, { isMean, canvas: null, low: Infinity, high: -Infinity });
    const [a, b] = this.raw.map((raw, each) => {
      if (raw instanceof BigInt64Array) return Float64Array.from(raw, Number);
      return isMean ? source.origins[each].means(raw, rows, columns) : raw;
    });
    this.numbers = b ? Float64Array.from(a, (value, at) => difference(value, b[at])) : a;
    for (const value of this.numbers) {
      if (value < this.low && !isMasked(value)) this.low = value;
      if (value > this.high && !isMasked(value)) this.high = value;
    }
  }

  /** Return an origin's number as it was fetched; undefined if it is not here. */
  numberOf(origin, row, column) {
    const raw = this.raw[this.source.origins.indexOf(origin)];
    const place = (index, { start, count, stride }) => {
      const at = Number(index - start) / stride;
      return Number.isInteger(at) && at >= 0 && at < count ? at : NaN;
    };
    return raw?.[place(row, this.rows) * this.columns.count + place(column, this.columns)];
  }

  /** Return the largest differences of single rows: of each row, and of each column. */
  largest() {
    if (this.most) return this.most;
    const [rows, columns] = [this.rows, this.columns].map(({ count }) => new Float64Array(count));
    for (let at = 0; at < this.raw[0].length; at += 1) {
      const value = Math.abs(difference(this.raw[0][at], this.raw[1][at]));
      const [row, column] = [Math.floor(at / columns.length), at % columns.length];
      if (value > rows[row]) rows[row] = value;
      if (value > columns[column]) columns[column] = value;
    }
    return (this.most = [rows, columns]);
  }
}

/** The tiles of a map: fetched when wanted, kept by bytes, the oldest that is not in sight goes first. */
export class Tiles {
  constructor(changed) {
    Object.assign(this, { changed, kept: new Map(), waiting: new Map(), bytes: 0, failure: null });
  }

  /** Fetch what is wanted, of `{key, source, rows, columns}`; abort what is not wanted any more. */
  want(wanted) {
    const keys = (this.wanted = new Set(wanted.map(({ key }) => key)));
    for (const [key, controller] of this.waiting)
      if (!keys.has(key)) {
        controller.abort();
        this.waiting.delete(key);
      }
    for (const each of wanted) {
      const tile = this.kept.get(each.key);
      this.kept.delete(each.key);
      if (tile) this.kept.set(each.key, tile);
      else if (!this.waiting.has(each.key) && !this.failure) this.fetch(each);
    }
  }

  async fetch(wanted) {
    const { key, source, rows, columns } = wanted;
    const controller = new AbortController();
    this.waiting.set(key, controller);
    try {
      const numbers = source.origins.map((each) => each.read(rows, columns, controller.signal));
      const [raw] = await Promise.all([Promise.all(numbers), source.frequencies?.()]);
      if (controller.signal.aborted) return;
      const tile = new Tile(wanted, raw);
      this.kept.set(key, tile);
      this.bytes += tile.bytes;
      for (const [oldest, { bytes }] of this.kept) {
        if (this.bytes <= TILE_BYTES) break;
        if (this.wanted.has(oldest)) continue;
        this.kept.delete(oldest);
        this.bytes -= bytes;
      }
    } catch (error) {
      if (controller.signal.aborted) return;
      this.failure = error;
    }
    this.waiting.delete(key);
    this.changed();
  }
}
