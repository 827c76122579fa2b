// Requests with a body: an example to edit, and the answer as pictures of its arrays and as JSON.

import { matricesOf, readArrays, shapeText } from "./arrays.js";
import { details, list, posted, showing } from "./given.js";
import { fill, h, ownUrl, partsOf, request } from "./lib.js";
import { MatrixPane, buttons } from "./table.js";

const MOST_TEXT = 20000;
const sizeOf = ({ shape }) => shape.reduce((one, other) => one * other, 1);
const addressOf = (path) => `/#view=post&entry=${path.slice(1)}`;
let draft = null;

/** Open a request with a body, which stays in memory: no address has it. */
export function edit(app, url, body) {
  draft = { url, body };
  app.open(addressOf(url.split("?")[0]));
}

export class PostView {
  constructor(app) {
    Object.assign(this, { app, pane: new MatrixPane() }, partsOf("post"));
    this.form.onsubmit = this.answer = showing(this.found, (signal) => this.send(signal));
  }

  /** Show the entry of a place, with the body of `edit` or its example; without one, all entries. */
  async show({ path }) {
    const { entries } = await this.app.catalogue();
    const posts = entries.filter((each) => each.method === "POST");
    const entry = posts.find((each) => each.path === path);
    const shown = draft ?? (entry && { url: entry.example, body: entry.body });
    draft = null;
    [this.form.hidden, this.empty.hidden] = [!shown, Boolean(shown)];
    fill(this.found);
    if (!shown) {
      const links = posts.map(({ path, title }) => h("a", { href: addressOf(path) }, title));
      return fill(this.entries, list("", links));
    }
    this.title.textContent = entry?.title ?? shown.url.split("?")[0];
    this.summary.textContent = entry?.summary ?? "";
    this.url.value = shown.url;
    this.body.value = JSON.stringify(shown.body, null, 2);
    return this.answer();
  }

  async send(signal) {
    const options = posted(this.body.value, signal);
    const url = ownUrl(this.url.value.trim()).href;
    const file = await (await request(url.replace(/\?|$/, ".safetensors$&"), options)).blob();
    const arrays = (await readArrays(file)).sort((a, b) => sizeOf(b) - sizeOf(a));
    const text = await (await request(url, options)).text();
    const names = arrays.map((each) => each.name);
    const choose = async (name) => {
      const array = arrays[names.indexOf(name)];
      const source = (await matricesOf(array)).matrix();
      const about = h("span", {}, `${shapeText(array.shape)} ${array.dtype}`);
      this.pane.choices.replaceChildren(buttons("Array", names, name, choose), about);
      const isUpright = source.rows.count > source.columns.count;
      this.pane.show({ panels: [{ source, name }], isUpright });
    };
    await choose(names[0]);
    const json = h("pre", { tabindex: "0" }, text.slice(0, MOST_TEXT));
    const isShown = !this.form.hidden;
    return isShown && [this.pane.choices, this.pane.element, details("As JSON", json)];
  }
}
