// node client.mjs fetch|http URL: send the requests of standard input with fetch, or with node:http.
import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";

const [library, url] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true });

const send = {
  async fetch(method, target, headers, body) {
    const answer = await fetch(url + target, { method, headers, body: body || undefined });
    return [answer.status, Buffer.from(await answer.arrayBuffer())];
  },
  http: (method, target, headers, body) =>
    new Promise((resolve, reject) => {
      const sent = request(url + target, { method, headers, agent }, async (answer) => {
        resolve([answer.statusCode, Buffer.concat(await answer.toArray())]);
      });
      sent.on("error", reject);
      // A body that is written before the end is sent in chunks.
      if (body) sent.write(body);
      sent.end();
    }),
}[library];

for (const line of readFileSync(0, "utf8").trimEnd().split("\n")) {
  const [method, target, fields, text] = line.split("\t");
  const headers = Object.fromEntries(
    fields.split("|").filter(Boolean).map((header) => header.split(": ")),
  );
  const [status, body] = await send(method, target, headers, text);
  console.log(JSON.stringify({ status, body: body.toString("hex") }));
}
agent.destroy();
