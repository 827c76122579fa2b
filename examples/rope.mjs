// A model's rotary table from posref: fetch it, check it, read a part of it, find a mistake.
// Run, beside config.json: node rope.mjs http://127.0.0.1:8000
import { readFile } from "node:fs/promises";

const server = process.argv[2] ?? "http://127.0.0.1:8000";

/** Return an answer, which must have this status. */
async function ask(status, path, options = {}) {
  const answer = await fetch(server + path, options);
  if (answer.status !== status) {
    throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  }
  return answer;
}

function check(name, value, expected) {
  console.log(`${name}: ${value.toFixed(6)}`);
  if (!(Math.abs(value - expected) < 1e-6)) throw new Error(`expected ${expected}`);
}

// From the config to the cosines in the layout of the model: a row of 64 for each position.
const json = { "Content-Type": "application/json" };
const config = { method: "POST", headers: json, body: await readFile("config.json") };
const model = await (await ask(200, "/rope/config", config)).json();
console.log(`layout: ${model.layout}`);
const link = model.rope.default.cos;
const table = await ask(200, link);
// A header of npy has 128 bytes. The config divides the lowest frequency by its factor, 32.
const cos = new Float32Array(await table.arrayBuffer(), 128);
const lowest = 500000 ** (-62 / 64) / 32;
check("cos[131071][31]", cos[131071 * 64 + 31], Math.cos(131071 * lowest));
await ask(304, link, { headers: { "If-None-Match": table.headers.get("ETag") } });
console.log("unchanged: 304");

// One row of a table of 512 GiB, and a misspelled parameter.
const first = 128 + 4 * 1e9 * 64;
const headers = { Range: `bytes=${first}-${first + 255}` };
const row = await ask(206, `${link}&seq_len=2147483648`, { headers });
check("cos[1000000000][0]", new Float32Array(await row.arrayBuffer())[0], Math.cos(1e9));
const problem = await (await ask(422, "/rope?head_dim=64&seqlen=8")).json();
console.log(`problem: ${problem.detail}`);

// The first 64 rows of an engine that interleaves the channels of a model with halves.
const mine = Float32Array.from({ length: 64 * 64 }, (_, i) => cos[i - (i % 64) + ((i % 64) >> 1)]);
const to = encodeURIComponent(link);
const types = { "Content-Type": "application/octet-stream", Accept: "text/plain" };
const array = { method: "POST", headers: types, body: mine };
const report = await ask(200, `/diagnose?shape=64,64&dtype=float32&to=${to}`, array);
console.log(`diagnosis: ${(await report.text()).split("\n")[0]}`);
