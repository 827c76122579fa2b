// Rotary tables and rotations in JavaScript's float64.
import { createInterface } from "node:readline";

const KNOWN = ["head_dim", "rotary_dim", "partial_rotary_factor", "rope_theta", "rope_type", "factor", "layout"];
KNOWN.push("/rope", "/rope/apply", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings");
const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

function frequencies({ head_dim, rotary_dim, partial_rotary_factor = 1, rope_theta = 1e4, factor = 1, ...given }) {
  const width = rotary_dim ?? Math.floor(head_dim * partial_rotary_factor);
  const { low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: length } = given;
  return Array.from({ length: width / 2 }, (_, k) => {
    const omega = rope_theta ** ((-2 * k) / width);
    const share = high ? Math.min(Math.max(((length * omega) / (2 * Math.PI) - low) / (high - low), 0), 1) : 0;
    return ((1 - share) * omega) / factor + share * omega;
  });
}

function rotated(row, cos, sin, layout) {
  const y = [...row];
  cos.forEach((c, k) => {
    const [i, j] = layout === "half" ? [k, k + cos.length] : [2 * k, 2 * k + 1];
    [y[i], y[j]] = [row[i] * c - row[j] * sin[k], row[j] * c + row[i] * sin[k]];
  });
  return y;
}

function answer({ kind, resource, parameters, positions, x }) {
  const others = [resource, ...Object.keys(parameters)].filter((name) => !KNOWN.includes(name));
  if (others.length) return { type: "unsupported", reason: `no ${others}` };
  const angles = positions.map((position) => frequencies(parameters).map((omega) => position * omega));
  const [cos, sin] = [Math.cos, Math.sin].map((f) => angles.map((row) => row.map(f)));
  if (kind === "table") return { type: "answer", dtype: "float64", pack: "compact", arrays: { cos, sin } };
  const turn = (rows) => rows.map((row, s) => rotated(row, cos[s], sin[s], parameters.layout));
  const turned = Array.isArray(x[0][0]) ? x.map(turn) : turn(x);
  return { type: "answer", dtype: "float64", arrays: { rotated: turned } };
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  const about = { name: "JavaScript float64", version: process.version, language: "JavaScript" };
  const offers = { kinds: ["table", "rotate"], rope_types: ["default", "linear", "llama3"] };
  if (message.type === "bye") break;
  say(message.type === "hello" ? { type: "hello", protocol: 1, ...about, ...offers } : answer(message));
}
process.exit();
