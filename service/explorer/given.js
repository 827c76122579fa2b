// What a person gives, as text or as files, and the elements that show what is answered.

import { Problem, bytes, fault, fill, h } from "./lib.js";

const READ_AFTER = 250;
const HEAD_BYTES = 2 ** 25;

export const code = (text) => h("code", {}, text);
export const paragraph = (...children) => h("p", {}, children);
export const muted = (...children) => h("p", { class: "muted" }, children);
export const details = (text, ...children) => h("details", {}, h("summary", {}, text), children);

/** Return a list of those items that there are; false if there is none. */
export function list(kind, items) {
  const there = items.filter(Boolean).map((each) => h("li", {}, each));
  return there.length > 0 && h("ul", { class: kind }, there);
}

/** Return the texts that are not empty, joined by dots. */
export const joined = (...texts) => texts.filter(Boolean).join(" · ");

/** Return numbers of layers in words, with runs of them as ranges. */
export function layersText(numbers) {
  const ends = numbers.filter((each, at) => numbers[at + 1] !== each + 1);
  const starts = numbers.filter((each, at) => numbers[at - 1] !== each - 1);
  const ranges = starts.map((each, at) => (each === ends[at] ? each : `${each}–${ends[at]}`));
  return ranges.length > 0 && `layers ${ranges.join(", ")}`;
}

/** Return what is given in a form, without empty fields. */
export function givenIn(form) {
  return new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
}

/** Return the options of a request that sends a body. */
export function posted(body, signal, type = "application/json") {
  return { method: "POST", headers: { "Content-Type": type }, body, signal };
}

/** Return the page of a table by its link in a report, which may end in an extension. */
export const pageOf = (url) => url.replace(/^([^.?]+)\.\w+/, "$1");

/** Return what fills an element by `make(signal)`, if it returns something; a later call aborts it. */
export function showing(element, make) {
  let last = new AbortController();
  return async function show() {
    last.abort();
    last = new AbortController();
    const { signal } = last;
    const made = await make(signal).catch((error) => fault(error, show));
    if (made && !signal.aborted) fill(element, made);
  };
}

/** Have an element take files: dropped onto it, or chosen by its first button for that. */
export function takeFiles(element, take) {
  const input = element.querySelector("input[type=file]");
  input.previousElementSibling.onclick = () => input.click();
  input.onchange = () => {
    if (input.files[0]) take(input.files[0]);
    input.value = "";
  };
  const over = async (event) => {
    event.preventDefault();
    event.stopPropagation();
    element.classList.toggle("over", event.type === "dragover");
    const { length, 0: file } = event.dataTransfer.files;
    const detail = `None of these ${length} is read: drop the one that is meant.`;
    if (length > 1) throw new Problem(0, { title: "One file at a time", detail });
    if (event.type === "drop" && file) take(file);
  };
  for (const name of ["dragover", "dragleave", "drop"]) element.addEventListener(name, over);
}

/** Text, or a file of which at most the first 33.6 MB are read if it is no text. */
export class Description {
  constructor(element, changed) {
    this.changed = changed;
    this.area = element.querySelector("textarea");
    this.hint = this.area.placeholder;
    this.area.oninput = () => {
      this.file = null;
      this.area.placeholder = this.hint;
      clearTimeout(this.waiting);
      this.waiting = setTimeout(changed, READ_AFTER);
    };
    element.querySelector(".quiet").onclick = () => this.set("");
    takeFiles(element, (file) => this.take(file));
  }

  /** The text, or the file; null if there is nothing. */
  get content() {
    return this.file ?? (this.area.value.trim() || null);
  }

  /** The media type of the content. */
  get type() {
    if (this.file) return "application/octet-stream";
    return this.content?.startsWith("{") ? "application/json" : "text/plain";
  }

  set(value, placeholder = this.hint, file = null) {
    Object.assign(this.area, { value, placeholder });
    this.file = file;
    this.changed();
  }

  async take(file) {
    const start = new Uint8Array(await file.slice(0, 4096).arrayBuffer());
    if (!start.includes(0)) return this.set(await file.text());
    const part = file.size > HEAD_BYTES ? `, the first ${bytes(HEAD_BYTES)} are read` : "";
    this.set("", `${file.name}: ${bytes(file.size)}${part}`, file.slice(0, HEAD_BYTES));
  }
}
