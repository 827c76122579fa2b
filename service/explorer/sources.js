// Windows of numbers: of a table on the server, of an array in memory, of two that are compared.

import { isMasked } from "./colours.js";
import { Problem, json, request } from "./lib.js";

/** Numbers and painted tiles are kept up to so many bytes. */
const TILE_BYTES = 64e6;
/** Where rows cannot be selected, a tile fetches consecutive ones up to so many bytes. */
const RANGE_BYTES = 4e6;
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

/** Return the shortest decimal that reads back as this number, as the JSON of the server has it. */
export function exactText(value, dtype) {
  if (!/float(16|32)$/.test(dtype)) return String(value);
  const short = (digits) => Number(value.toPrecision(digits));
  const isSame = (digits) => Math.fround(short(digits)) === value;
  return String(short([1, 2, 3, 4, 5, 6, 7, 8].find(isSame) ?? 9));
}

/** The numbers that rows or columns stand for: equidistant ones, or runs of them as listed. */
class Labels {
  constructor({ axis, count, first = 0, step = 1, values = null }) {
    Object.assign(this, { axis, count: BigInt(count), isEven: !values });
    const run = (text) => {
      const [from, end, stride = 1] = text.split(":");
      if (end === undefined && /[^-\d]/.test(from)) return { first: from, step: 1n, count: 1n };
      const [one, by] = [BigInt(from), BigInt(stride)];
      const length = end === undefined ? 1n : (BigInt(end) - one + by - 1n) / by;
      return { first: one, step: by, count: length };
    };
    const even = { first: BigInt(first), step: BigInt(step), count: this.count };
    this.runs = values ? values.split(",").map(run) : [even];
  }

  /** Return the label of an index: a BigInt, or the text of a fraction. */
  at(index) {
    let rest = BigInt(index);
    for (const { first, step, count } of this.runs) {
      if (rest < count) return typeof first === "bigint" ? first + rest * step : first;
      rest -= count;
    }
    return BigInt(index);
  }

  /** Return the index of a label; null if there is none. */
  find(label) {
    let before = 0n;
    for (const { first, step, count } of this.runs) {
      const index = typeof first === "bigint" ? (label - first) / step : -1n;
      if (index >= 0n && index < count && first + index * step === label) return before + index;
      before += count;
    }
    return null;
  }

  /** Return the value of a parameter that selects a window. */
  select({ start, count, stride }) {
    const step = BigInt(stride);
    const each = (_, at) => this.at(start + BigInt(at) * step);
    if (!this.isEven) return Array.from({ length: count }, each).join();
    const by = step * this.runs[0].step;
    return `${this.at(start)}:${this.at(start) + BigInt(count - 1) * by + 1n}:${by}`;
  }
}

/** What columns mean: the number of the pair of each, and where its cosine and its sine are. */
class Channels {
  constructor(runs, part) {
    Object.assign(this, { pairs: new Map(), places: new Map() });
    for (const run of (runs ?? []).filter(({ pair }) => pair !== null))
      for (let at = 0; at < run.count; at += 1) {
        const [column, pair] = [run.start + at * run.step, run.pair + at * run.pair_step];
        const place = `${part ?? run.part} ${pair}`;
        this.pairs.set(column, pair);
        if (!this.places.has(place)) this.places.set(place, column);
      }
  }

  /** Return the columns of the cosine and of the sine of a pair; undefined if not there. */
  columnsOf(pair) {
    return [this.places.get(`cos ${pair}`), this.places.get(`sin ${pair}`)];
  }
}

let made = 0;

/** An array in memory: of a file, of the answer to a POST, or one channel of a grid. */
export class ArraySource {
  /**
   * Make a source of numbers, row by row; `rows` and `columns` are `{axis, count}` and more as in the
   * view of /describe. With the description of their table, channels have a meaning.
   */
  constructor(numbers, { rows, columns, dtype, description = {}, part = null, range = null }) {
    Object.assign(this, { id: (made += 1), numbers, dtype, description, part, range });
    this.hasMeans = false;
    [this.rows, this.columns] = [new Labels(rows), new Labels(columns)];
    this.channels = new Channels(description.channels, /^(cos|sin)$/.test(part) ? part : null);
    this.frequencies = Promise.resolve();
  }

  /** Return the largest stride of rows at which tiles of so many are to be had. */
  maximumStride() {
    return Infinity;
  }

  /** Return where the cosine and the sine of a pair are: [source, column] of each that is there. */
  placesOf(pair) {
    const places = this.channels.columnsOf(pair).map((column) => [this, column]);
    return places.filter(([, column]) => column !== undefined);
  }

  /** Return the numbers of windows `{start, count, stride}` of rows and of columns, row by row. */
  async read(rows, columns) {
    const places = [Number(rows.start), rows.stride, Number(columns.start), columns.stride];
    return picked(this.numbers, Number(this.columns.count), places, rows.count, columns.count);
  }
}

/** Return a window of a matrix of so many columns, by first and stride of rows and of columns. */
function picked(numbers, width, [row, rowStep, column, columnStep], rows, columns) {
  if (numbers.length === rows * columns) return numbers;
  const result = new numbers.constructor(rows * columns);
  for (let at = 0; at < result.length; at += 1) {
    const [down, across] = [Math.floor(at / columns), at % columns];
    result[at] = numbers[(row + down * rowStep) * width + column + across * columnStep];
  }
  return result;
}

/** A table on the server, as a matrix of rows and columns. */
export class TableSource extends ArraySource {
  /** Make the source of one part and one head of a table, by the answer of /describe. */
  constructor(description, { part = description.view.parts[0], head = 0 } = {}) {
    const { view } = description;
    super(null, { ...view, description, part, range: description.value_range });
    Object.assign(this, { view, head });
    this.itemBytes = ARRAYS[view.dtype]?.BYTES_PER_ELEMENT ?? 2;
    this.frequencies = this.load(description.frequencies);
  }

  maximumStride(rows) {
    const rowBytes = Number(this.columns.count) * this.itemBytes;
    return this.view.rows.parameter ? Infinity : RANGE_BYTES / (rows * rowBytes);
  }

  async load(url) {
    if (!url) return;
    const { data } = await json(url);
    const radians = data.inv_freq ?? data.frequency;
    const isFlat = typeof radians?.[0] === "number";
    if (isFlat) Object.assign(this, { radians, wavelengths: data.wavelength });
    this.hasMeans = isFlat && this.view.is_even && this.channels.pairs.size > 0;
  }

  /** Return the mean of so many rows as a factor of the middle one, for the pair of a column. */
  gain(column, stride) {
    const radians = this.radians[this.channels.pairs.get(column)] ?? 0;
    const half = (radians * Number(this.view.rows.step)) / 2;
    const below = stride * Math.sin(half);
    return Math.abs(below) < 1e-9 ? 1 : Math.sin(stride * half) / below;
  }

  placesOf(pair) {
    if (!this.view.parts.length) return super.placesOf(pair);
    return ["cos", "sin"].map((part) => {
      const channels = new Channels(this.description.channels, part);
      const other = Object.assign(Object.create(this), { part, channels });
      return [other, channels.places.get(`${part} ${pair}`)];
    });
  }

  /** Return the address of windows of rows and of columns, in any format. */
  address(rows, columns, format = "bin") {
    const { url, parts, leading, rows: down, columns: across } = this.view;
    const isAll = columns.stride === 1 && BigInt(columns.count) === this.columns.count;
    const more = [
      parts.length && ["part", this.part],
      leading?.parameter && [leading.parameter, leading.values?.split(",")[this.head] ?? this.head],
      down.parameter && [down.parameter, this.rows.select(rows)],
      across.parameter && !isAll && [across.parameter, this.columns.select(columns)],
    ];
    const query = more.filter(Boolean).map(([name, value]) => `&${name}=${value}`);
    return url.replace(".bin", `.${format}`) + query.join("");
  }

  async read(rows, columns, signal) {
    const { leading, rows: down, columns: across } = this.view;
    const width = across.parameter ? columns.count : Number(this.columns.count);
    const height = down.parameter ? rows.count : (rows.count - 1) * rows.stride + 1;
    const isStacked = leading && !leading.parameter;
    const before = isStacked
      ? BigInt(this.head) * (down.parameter ? BigInt(height) : this.rows.count)
      : 0n;
    const first = before + (down.parameter ? 0n : rows.start);
    const [start, end] = [first, first + BigInt(height)].map(
      (row) => row * BigInt(width * this.itemBytes),
    );
    const headers = { Accept: "*/*" };
    if (isStacked || !down.parameter) headers.Range = `bytes=${start}-${end - 1n}`;
    const response = await request(this.address(rows, columns), { signal, headers });
    const bytes = await response.arrayBuffer();
    const isWhole = headers.Range && response.status === 200;
    const numbers = decode(isWhole ? bytes.slice(Number(start), Number(end)) : bytes, this.dtype);
    const places = [0, down.parameter ? 1 : rows.stride];
    places.push(...(across.parameter ? [0, 1] : [Number(columns.start), columns.stride]));
    return picked(numbers, width, places, rows.count, columns.count);
  }
}

/** The difference of the rows and columns that two sources have in common. */
export class DifferenceSource {
  constructor(one, other) {
    const { dtype, channels, description } = one;
    const least = (a, b) =>
      Object.assign(Object.create(a), { count: a.count < b.count ? a.count : b.count });
    Object.assign(this, { id: (made += 1), one, other, dtype, channels, description });
    Object.assign(this, { isDifference: true, rows: least(one.rows, other.rows) });
    this.columns = least(one.columns, other.columns);
    this.frequencies = Promise.all([one.frequencies, other.frequencies]);
  }

  get wavelengths() {
    return this.one.wavelengths;
  }

  get hasMeans() {
    return this.one.hasMeans && this.other.hasMeans;
  }

  maximumStride(rows) {
    return Math.min(this.one.maximumStride(rows), this.other.maximumStride(rows));
  }

  async read(...window) {
    return Promise.all([this.one.read(...window), this.other.read(...window)]);
  }
}

/** Return a − b; 0 of two equal infinities, as masks are. */
const difference = (a, b) => (a === b ? 0 : Number(a) - Number(b));

/** A window of one source at one stride, with its numbers as they are shown. */
class Tile {
  constructor({ source, rows, columns }, raw) {
    Object.assign(this, { source, rows, columns, raw: source.isDifference ? raw : [raw] });
    this.bytes = this.raw.reduce((sum, each) => sum + each.byteLength, 0);
    this.bytes += rows.count * columns.count * 12;
  }

  /** Make the numbers to be shown: of single rows, or means of as many as the stride. */
  show(isMean) {
    if (this.isMean === isMean) return;
    const { source, rows, columns } = this;
    Object.assign(this, { isMean, canvas: null });
    const [a, b] = this.raw.map((raw, each) => {
      if (raw instanceof BigInt64Array) return Float64Array.from(raw, Number);
      if (!isMean || rows.stride === 1) return raw;
      const of = source.isDifference ? [source.one, source.other][each] : source;
      const gain = (_, at) => of.gain(Number(columns.start) + at * columns.stride, rows.stride);
      const gains = Array.from({ length: columns.count }, gain);
      return Float32Array.from(raw, (value, at) => value * gains[at % columns.count]);
    });
    this.numbers = b ? Float64Array.from(a, (value, at) => difference(value, b[at])) : a;
    [this.low, this.high] = [Infinity, -Infinity];
    for (const value of this.numbers)
      if (!isMasked(value)) {
        if (value < this.low) this.low = value;
        if (value > this.high) this.high = value;
      }
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
      const numbers = source.read(rows, columns, controller.signal);
      const [raw] = await Promise.all([numbers, source.frequencies]);
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
