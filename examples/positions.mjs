// A prompt of text, images and a video: its position ids, their rotary table, a rotated query.
// Run, beside prompt.json: node positions.mjs http://127.0.0.1:8000
import { readFile, writeFile } from "node:fs/promises";

const server = process.argv[2] ?? "http://127.0.0.1:8000";
// Qwen2.5-VL: 128 channels a head, of which t, h and w turn 16, 24 and 24 pairs.
const rope = "head_dim=128&rope_theta=1000000&mrope_section=16,24,24";

/** Return the answer to a body, which must not be refused. */
async function post(path, body, type) {
  const options = { method: "POST", body, headers: { "Content-Type": type } };
  const answer = await fetch(server + path, options);
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return Buffer.from(await answer.arrayBuffer());
}

/** Return the header and the numbers of a file of safetensors. */
function tensors(file) {
  const end = 8 + Number(file.readBigUInt64LE());
  return [JSON.parse(file.subarray(8, end)), file.subarray(end)];
}

function array(file, name) {
  const [header, numbers] = tensors(file);
  const { dtype, shape, data_offsets } = header[name];
  const bytes = new Uint8Array(numbers.subarray(...data_offsets)).buffer;
  return [dtype === "I64" ? new BigInt64Array(bytes) : new Float32Array(bytes), shape];
}

// The ids of two rows: t, h and w of each token; the shorter row is padded on the left.
const prompt = await readFile("prompt.json");
const ids = await post("/positions.safetensors", prompt, "application/json");
const [positions, [axes, rows, length]] = array(ids, "position_ids");
console.log(`rope_deltas: ${array(ids, "rope_deltas")[0].join(" ")}`);
const token = Array.from({ length: axes }, (_, axis) => positions[axis * rows * length + 13]);
console.log(`token 13 of row 0: ${token.join(" ")}`);

// The ids as they are for the cosines and sines of every token, and with queries to rotate them.
const binary = "application/vnd.safetensors";
const table = await post(`/rope.safetensors?pack=half&${rope}`, ids, binary);
const [[cos], [sin]] = [array(table, "cos"), array(table, "sin")];
const shape = [rows, 2, length, 128];
const count = rows * 2 * length * 128;
const q = Float32Array.from({ length: count }, (_, i) => (((7919 * i) % 2048) - 1024) / 1024);
const [header, numbers] = tensors(ids);
const data_offsets = [numbers.length, numbers.length + q.byteLength];
const text = Buffer.from(JSON.stringify({ ...header, q: { dtype: "F32", shape, data_offsets } }));
const size = Buffer.alloc(8);
size.writeBigUInt64LE(BigInt(text.length));
const body = Buffer.concat([size, text, numbers, Buffer.from(q.buffer)]);
const apply = `/rope/apply.safetensors?layout=half&axes=batch,head,seq,channel&${rope}`;
const answer = await post(apply, body, binary);
await writeFile("rotated.safetensors", answer);

// The same by hand; and the number that transformers has.
const [rotated] = array(answer, "q");
const differences = rotated.map((value, i) => {
  const channel = i % 128;
  const at = (Math.floor(i / (2 * length * 128)) * length * 128) + (i % (length * 128));
  const other = channel < 64 ? -q[i + 64] : q[i - 64];
  return Math.abs(value - (q[i] * cos[at] + other * sin[at]));
});
console.log(`as cos and sin: ${differences.every((each) => each < 1e-6)}`);
const value = rotated[(length + 30) * 128];
console.log(`q[0][1][30][0]: ${value.toFixed(6)}`);
if (!(Math.abs(value - 0.750977) < 1e-6)) throw new Error("expected 0.750977");
