// Arrays in files: npy, safetensors, and elements without a header. Only what is asked for is read.

import { Problem, whole } from "./lib.js";
import { ArraySource, decode } from "./sources.js";

const KINDS = { f: "float", i: "int", u: "uint", c: "complex", V: "bfloat", b: "bool" };
const CODES = { F: "float", BF: "bfloat", I: "int", U: "uint", C: "complex", BOOL: "bool" };
const READ = /^(float(16|32|64)|bfloat16|complex64|u?int(8|16|32|64)|bool)$/;
const WORDS = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array };
const OTHER =
  "JSON, .npz and .pt are not read: save an array as .npy. A config goes in “What it should be”.";
const MOST_HEADER_BYTES = 2 ** 27;
const MOST_DRAWN_BYTES = 2 ** 26;

const unreadable = (detail) => new Problem(0, { title: "This file cannot be read", detail });
const product = (lengths) => lengths.reduce((one, other) => one * other, 1);
const itemBytes = (dtype) => Number(/\d*$/.exec(dtype)[0] || 8) / 8;
const isLength = (number) => Number.isSafeInteger(number) && number >= 0;

/** Return a shape as text. */
export const shapeText = (shape) => shape.map(whole).join(" × ") || "one number";

/** Return the arrays of a file, {name, dtype, shape, file, first}; null if it may be elements alone. */
export async function readArrays(file) {
  if (!file.size) throw unreadable(`${file.name} is empty.`);
  const view = new DataView(await file.slice(0, 16).arrayBuffer());
  const start = new TextDecoder("latin1").decode(view);
  if (/^(PK\x03\x04|\s*[[{][\s -~]*$)/.test(start)) throw unreadable(OTHER);
  if (view.byteLength < 16) return null;
  if (view.getUint32(0) === 0x934e554d) return [await readNpy(file, view)];
  const length = Number(view.getBigUint64(0, true));
  const isTensors = view.getUint8(8) === 0x7b && 8 + length <= file.size;
  return isTensors && length < MOST_HEADER_BYTES ? readTensors(file, length) : null;
}

async function readNpy(file, view) {
  const version = view.getUint8(6);
  const [start, length] =
    version === 1 ? [10, view.getUint16(8, true)] : [12, view.getUint32(8, true)];
  const text = await file.slice(start, start + Math.min(length, 10000)).text();
  const [, order, kind, size] = /'descr':\s*'([<>|=]?)([a-zA-Z])(\d+)'/.exec(text) ?? [];
  const lengths = /'shape':\s*\(((\s*\d+L?\s*(,|(?=\))))*\s*)\)/.exec(text)?.[1];
  if (![1, 2, 3].includes(version) || !KINDS[kind] || lengths === undefined || order === ">")
    throw unreadable(`No numbers as astype('<f4') makes: npy ${version}, ${text.slice(0, 200)}`);
  return checked({
    name: file.name,
    dtype: KINDS[kind] + (kind === "b" ? "" : 8 * Number(size)),
    shape: (lengths.match(/\d+/g) ?? []).map(Number),
    file,
    first: start + length,
    isFortran: /'fortran_order':\s*True/.test(text),
  });
}

async function readTensors(file, length) {
  try {
    const text = await file.slice(8, 8 + length).text();
    const { __metadata__, ...header } = JSON.parse(text);
    const tensors = Object.entries(header).map(([name, { dtype: code, shape, data_offsets }]) => {
      const dtype = code.replace(/^[A-Z]+/, (letters) => CODES[letters] ?? letters);
      const [first, end] = data_offsets.map((each) => 8 + length + each);
      const isFit = !READ.test(dtype) || end - first === product(shape) * itemBytes(dtype);
      const isRight = isFit && [...shape, ...data_offsets].every(isLength);
      return { name, dtype, shape, file, first, end: isRight ? end : NaN };
    });
    tensors.sort((a, b) => a.first - b.first || a.end - b.end);
    const last = tensors.reduce((end, each) => (each.first === end ? each.end : NaN), 8 + length);
    // JSON.parse keeps the last of several tensors of one name.
    const named = text.match(/"data_offsets"\s*:/g).length;
    if (last === file.size && named === tensors.length) return tensors;
  } catch {
    // Nothing that is read so far describes a tensor.
  }
  throw unreadable("Its header does not describe each tensor once, with bytes as of its shape.");
}

/** Return an array whose elements are all of the file from its first on; throws Problem. */
export function checked(array) {
  const { dtype, shape, file, first } = array;
  if (!shape.every(isLength)) throw unreadable(`${shape.join(" × ")} is no shape.`);
  const [expected, held] = [product(shape) * itemBytes(dtype), file.size - first];
  if (expected === held) return array;
  throw unreadable(`${shape.join(" × ")} ${dtype} take ${expected} bytes; there are ${held}.`);
}

/** Return the bytes at the first indices of the first axis, in C order; throws Problem. */
async function bytesOf(array, count) {
  const { name, shape, dtype, file, first, isFortran } = array;
  if (!READ.test(dtype) || !shape.length || !product(shape))
    throw unreadable(`${name} is ${shapeText(shape)} ${dtype}: the server reads no such array.`);
  const size = itemBytes(dtype);
  const lengths = [count, ...shape.slice(1)];
  const stored = product(isFortran ? shape : lengths) * size;
  const buffer = await file.slice(first, first + stored).arrayBuffer();
  if (!isFortran) return buffer;
  const steps = shape.map((_, axis) => product(shape.slice(0, axis)));
  return arranged(new WORDS[size](buffer), lengths, steps).buffer;
}

/** Return numbers in C order of axes of these lengths, along which neighbours are so many apart. */
function arranged(numbers, lengths, steps) {
  if (steps.every((step, axis) => step === product(lengths.slice(axis + 1))))
    return numbers.slice(0, product(lengths));
  const result = new numbers.constructor(product(lengths));
  for (let to = 0; to < result.length; to += 1) {
    let [from, rest] = [0, to];
    for (let axis = lengths.length - 1; axis >= 0; axis -= 1) {
      from += (rest % lengths[axis]) * steps[axis];
      rest = Math.floor(rest / lengths[axis]);
    }
    result[to] = numbers[from];
  }
  return result;
}

/** Return how many indices of its first axis an array of at most so many bytes has. */
export function lengthOf({ shape, dtype }, limitBytes = MOST_DRAWN_BYTES) {
  const most = limitBytes / (product(shape.slice(1)) * itemBytes(dtype));
  return Math.min(shape[0] ?? 1, Math.floor(most) || 1);
}

/**
 * Return how an array with the axes of a table is drawn, null if it does not fit: heads are the first
 * axis, channels the last; complex numbers are two columns. `cellOf` is of a place in a report.
 */
export function layoutOf({ shape, dtype }, { axes, view: { leading, columns } }) {
  const rank = Math.max(shape.length, axes.length);
  const padded = (all, by) => [...Array(rank - all.length).fill(by), ...all];
  const inner = dtype.startsWith("complex") ? [2] : rank === 1 ? [1] : [];
  const [names, own] = [padded(axes, ""), [...padded(shape, 1), ...inner]];
  const head = names.indexOf(leading?.axis);
  const last = names.findIndex((name) => name.startsWith("channel"));
  const weight = (axis) => (axis === head ? -1 : axis === last ? rank - 0.5 : axis);
  const order = [...own.keys()].sort((a, b) => weight(a) - weight(b));
  const lengths = order.map((axis) => own[axis]);
  const steps = order.map((axis) => product(own.slice(axis + 1)));
  const widths = lengths.map((_, axis) => product(lengths.slice(axis)));
  const width = Number(columns.count ?? widths[Math.max(rank - 1, 1)]);
  if (!widths.includes(width)) return null;
  const heads = own[head] ?? 1;
  const height = widths[0] / heads / width;
  const cellOf = ({ index, part }) => {
    const all = [...padded(index, 0), Number(part === "imaginary")];
    const at = order.reduce((sum, axis, each) => sum + all[axis] * (widths[each + 1] ?? 1), 0);
    const row = BigInt(Math.floor(at / width) % height);
    return { head: Math.floor(at / width / height), row, column: BigInt(at % width) };
  };
  return { heads, height, width, lengths, steps, cellOf };
}

/** Return an array as matrices to draw, one of each head, with the axes of a table if it fits it. */
export async function matricesOf(array, table) {
  const { shape, dtype } = array;
  const count = lengthOf(array);
  const buffer = await bytesOf(array, count);
  const type = dtype === "complex64" ? "float32" : dtype;
  const drawn = { dtype, shape: shape.with(0, count) };
  const fitting = table ? layoutOf(drawn, table) : null;
  const { heads, height, width, lengths, steps, cellOf } =
    fitting ?? layoutOf(drawn, { axes: [], view: { leading: null, columns: {} } });
  const numbers = arranged(decode(buffer, type), lengths, steps);
  const description = fitting ? { ...table, frequencies: null } : undefined;
  const rows = { axis: "row", ...description?.view.rows, count: String(height) };
  const columns = { axis: "column", ...description?.view.columns, count: String(width) };
  const matrix = (head = 0) => {
    const part = numbers.subarray(head * height * width, (head + 1) * height * width);
    return new ArraySource(part, { rows, columns, dtype: type, description });
  };
  return { heads, matrix, cellOf };
}

/** Return a safetensors file of as many rows of arrays as a limit allows, with a model. */
export async function packed(arrays, limit, model = null) {
  const [header, parts] = [{}, []];
  let end = 0;
  const add = (name, dtype, shape, bytes) => {
    const code = (kind) => Object.keys(CODES).find((each) => CODES[each] === kind) ?? kind;
    const data_offsets = [end, (end += bytes.byteLength)];
    header[name] = { dtype: dtype.replace(/^[a-z]+/, code), shape, data_offsets };
    parts.push(bytes);
  };
  for (const array of arrays) {
    const length = lengthOf(array, limit);
    const shape = [length, ...array.shape.slice(1)];
    // Only a tensor has a name of its own; the model has this one.
    const name = ["model", array.file.name].includes(array.name) ? "x" : array.name;
    add(name, array.dtype, shape, await bytesOf(array, length));
  }
  const content = await new Blob([model ?? ""]).arrayBuffer();
  if (model) add("model", "uint8", [content.byteLength], content);
  const text = new TextEncoder().encode(JSON.stringify(header));
  return new Blob([new BigUint64Array([BigInt(text.length)]), text, ...parts]);
}
