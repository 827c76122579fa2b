// Arrays in files: npy, safetensors, and elements without a header. Only what is asked for is read.

import { Problem, whole } from "./lib.js";
import { ArraySource, decode } from "./sources.js";

const KINDS = { f: "float", i: "int", u: "uint", c: "complex", V: "bfloat", b: "bool" };
const CODES = { F: "float", BF: "bfloat", I: "int", U: "uint", C: "complex", BOOL: "bool" };
const READ = /^(float(16|32|64)|bfloat16|complex64|u?int(8|16|32|64)|bool)$/;
const MOST_HEADER_BYTES = 2 ** 27;
const MOST_DRAWN_BYTES = 2 ** 26;

const unreadable = (detail) => new Problem(0, { title: "This file cannot be read", detail });
const product = (lengths) => lengths.reduce((one, other) => one * other, 1);
const itemBytes = (dtype) => Number(/\d*$/.exec(dtype)[0] || 8) / 8;
const isLength = (number) => Number.isSafeInteger(number) && number >= 0;

/** Return a shape as text. */
export const shapeText = (shape) => shape.map(whole).join(" × ") || "one number";

/** Return the arrays of a file, {name, dtype, shape, file, first}; null without a header. */
export async function readArrays(file) {
  if (!file.size) throw unreadable(`${file.name} is empty.`);
  const view = new DataView(await file.slice(0, 16).arrayBuffer());
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
    throw unreadable(`No array of little-endian numbers: npy ${version}, ${text.slice(0, 200)}`);
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
export async function bytesOf(array, count) {
  const { name, shape, dtype, file, first, isFortran } = array;
  if (!READ.test(dtype) || !shape.length || !product(shape))
    throw unreadable(`${name} is ${shapeText(shape)} ${dtype}: the server reads no such array.`);
  const length = count * product(shape.slice(1)) * itemBytes(dtype);
  const stored = isFortran ? product(shape) * itemBytes(dtype) : length;
  const buffer = await file.slice(first, first + stored).arrayBuffer();
  return isFortran ? inRows(new Uint8Array(buffer), shape, itemBytes(dtype), length) : buffer;
}

/** Return the first bytes in C order of elements in Fortran order. */
function inRows(bytes, shape, size, length) {
  const result = new Uint8Array(length);
  const steps = shape.map((_, axis) => size * product(shape.slice(0, axis)));
  for (let to = 0; to < length; to += size) {
    let [from, rest] = [0, to / size];
    for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
      from += (rest % shape[axis]) * steps[axis];
      rest = Math.floor(rest / shape[axis]);
    }
    for (let each = 0; each < size; each += 1) result[to + each] = bytes[from + each];
  }
  return result.buffer;
}

/** Return how many indices of its first axis an array of at most so many bytes has. */
export function lengthOf({ shape, dtype }, limitBytes = MOST_DRAWN_BYTES) {
  const most = limitBytes / (product(shape.slice(1)) * itemBytes(dtype));
  return Math.min(shape[0] ?? 1, Math.floor(most) || 1);
}

/**
 * Return an array as matrices to draw, one of each head; complex numbers are two columns. Their axes
 * are those of a table, where its description is given and the array is stored as its view is.
 */
export async function matricesOf(array, table) {
  const { shape, dtype } = array;
  const type = dtype === "complex64" ? "float32" : dtype;
  const numbers = decode(await bytesOf(array, lengthOf(array)), type);
  const parts = type === dtype ? 1 : 2;
  const widths = shape.map((_, axis) => product(shape.slice(axis)) * parts);
  const wanted = table && Number(table.view.columns.count ?? widths.at(-1));
  const [first = ""] = table?.axes ?? [];
  const isStored = !first.startsWith("channel") && (table?.view.leading?.axis ?? first) === first;
  const description = isStored && widths.includes(wanted) ? table : undefined;
  const { leading, rows: down, columns: across } = description?.view ?? {};
  const own = widths.length > 1 ? widths.at(-1) : parts;
  const width = description ? wanted : own;
  const height = leading && shape.length > 2 ? shape.at(-2) : numbers.length / width;
  const size = height * width;
  const rows = { axis: "row", ...down, count: String(height) };
  const columns = { axis: "column", ...across, count: String(width) };
  const matrix = (head = 0) => {
    const part = numbers.subarray(head * size, (head + 1) * size);
    return new ArraySource(part, { rows, columns, dtype: type, description });
  };
  const cellOf = ({ index, part }) => {
    const steps = index.map((each, axis) => (each * widths[axis]) / shape[axis]);
    const at = steps.reduce((sum, each) => sum + each, Number(part === "imaginary"));
    const row = BigInt(Math.floor(at / width) % height);
    return { head: Math.floor(at / size), row, column: BigInt(at % width) };
  };
  return { heads: numbers.length / size, matrix, cellOf };
}

/** Return a safetensors file of tensors `{name, dtype, shape, bytes}`. */
export function safetensors(tensors) {
  const header = {};
  let end = 0;
  for (const { name, dtype, shape, bytes } of tensors) {
    const code = (kind) => Object.keys(CODES).find((each) => CODES[each] === kind) ?? kind;
    const data_offsets = [end, (end += bytes.byteLength)];
    header[name] = { dtype: dtype.replace(/^[a-z]+/, code), shape, data_offsets };
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const length = new BigUint64Array([BigInt(text.length)]);
  return new Blob([length, text, ...tensors.map((each) => each.bytes)]);
}
