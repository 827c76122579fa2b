// Requests with a body: an example to edit, and the answer as pictures of its arrays and as JSON.

import { readArrays, shapeText, sourceOf } from "./arrays.js";
import { details, posted, refused } from "./given.js";
import { copied, h, request } from "./lib.js";
import { MatrixPane, buttons } from "./table.js";

const MOST_TEXT = 20000;
const sizeOf = ({ shape }) => shape.reduce((one, other) => one * other, 1);
let draft = null;

/** Open a request with a body, which stays in memory: no address has it. */
export function edit(app, url, body) {
  draft = { url, body };
  const id = url.split("?")[0].slice(1).replaceAll("/", ":");
  app.open(`/#view=post&entry=${encodeURIComponent(id)}`);
}

/** The view. */
export class PostView {
  constructor(app) {
    this.app = app;
    this.element = copied("post").firstElementChild;
    [this.title, this.summary, this.url, this.body, this.found] = [
      ...this.element.querySelectorAll("h1, p, input, textarea, .found"),
    ];
    this.pane = new MatrixPane();
    this.element.querySelector("form").onsubmit = (event) => {
      event.preventDefault();
      this.send();
    };
  }

  /** Show the entry of a place, with the body of `edit` or its example. */
  async show(place) {
    await this.app.catalogue;
    const entry = this.app.panel.entryOf(place);
    const { url, body } = draft ?? { url: entry?.example ?? "/", body: entry?.body ?? {} };
    draft = null;
    this.title.textContent = entry?.title ?? url.split("?")[0];
    this.summary.textContent = entry?.summary ?? "";
    this.url.value = url;
    this.body.value = JSON.stringify(body, null, 2);
    await this.send();
  }

  close() {
    this.sending?.abort();
  }

  async send() {
    this.close();
    const { signal } = (this.sending = new AbortController());
    const options = posted(this.body.value, signal);
    try {
      const url = this.url.value.trim();
      const file = await (await request(url.replace(/\?|$/, ".safetensors$&"), options)).blob();
      const arrays = (await readArrays(file)).sort((a, b) => sizeOf(b) - sizeOf(a));
      const text = await (await request(url, options)).text();
      const json = h("pre", { tabindex: "0" }, text.slice(0, MOST_TEXT));
      this.found.replaceChildren(this.pane.choices, this.pane.element, details("As JSON", json));
      const names = arrays.map((each) => each.name);
      const choose = async (name) => {
        const array = arrays[names.indexOf(name)];
        const source = await sourceOf(array);
        const about = h("span", {}, `${shapeText(array.shape)} ${array.dtype}`);
        this.pane.choices.replaceChildren(buttons("Array", names, name, choose), about);
        this.pane.show({
          description: {},
          panels: [{ source, name }],
          isUpright: source.rows.count > source.columns.count,
        });
      };
      await choose(names[0]);
    } catch (error) {
      if (!signal.aborted) this.found.replaceChildren(refused(error));
    }
  }
}
