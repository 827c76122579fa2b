// Two tables: one over the other, and their difference over positions and channels.

import { copied, h, json, real, whole } from "./lib.js";
import { DifferenceSource } from "./sources.js";
import { MatrixPane, buttons, choices, chosenSource } from "./table.js";

const SHOWN = { a: "A", b: "B", ab: "Both", d: "A − B" };
/** The server compares tables as a whole up to so many bytes. */
const WHOLE_BYTES = 128e6;

/** Return in words what two sources have in common, and the panels in which they can be shown. */
function common(a, b) {
  const [A, B] = [a, b].map((source, at) => ({ source, name: "AB"[at], label: "AB"[at] }));
  const panels = { a: [A], b: [B] };
  const [one, other] = [a, b].map(({ rows, columns }) => `${rows.axis} × ${columns.axis}`);
  if (one !== other) return [`A is ${one}, B is ${other}: they have no numbers in common.`, panels];
  const cut = ["rows", "columns"].filter((each) => a[each].count !== b[each].count);
  const parts = cut.map((each) => {
    const counts = [a[each].count, b[each].count].sort((own, theirs) => (own < theirs ? -1 : 1));
    return `the first ${whole(counts[0])} of ${whole(counts[1])} ${a[each].axis}s`;
  });
  const others = ["rows", "columns"].filter((each) => !a[each].agrees(b[each]));
  const shifts = others.map(
    (each) => `The ${a[each].axis}s of B are others: ${each} are compared in order, by those of A.`,
  );
  const notes = [parts.length && `Compared: ${parts.join(", ")}.`, ...shifts];
  if (!cut.length) panels.ab = [A, B];
  panels.d = [{ source: new DifferenceSource(a, b), name: "A minus B", label: "A − B" }];
  return [notes.filter(Boolean).join(" "), panels];
}

/** Return in words the parameters in which two descriptions differ. */
function differing({ parameters: a }, { parameters: b }) {
  const text = (value = "none") => (typeof value === "string" ? value : JSON.stringify(value));
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  const differ = names.filter((name) => text(a[name]) !== text(b[name]));
  const changes = differ.map((name) => `${name} ${text(a[name])} → ${text(b[name])}`);
  if (!changes.length) return "A and B are the same: change B, or a parameter of A.";
  return `${changes.join(", ")}.`;
}

/** Return what throws a Problem with B: no field of A is at fault, and B repaired is compared. */
const ofOther = (a) => (problem) => {
  const link = (url) => url && `${a}#vs=${encodeURIComponent(url)}`;
  const errors = problem.errors?.map((each) => ({ ...each, parameter: null, url: link(each.url) }));
  throw Object.assign(problem, { errors });
};

/** Two tables at their addresses: A at that of the page, B in the fragment. */
export class CompareView {
  constructor(app) {
    this.app = app;
    this.pane = new MatrixPane((changes) => app.look(changes));
    [this.element] = copied("comparison").children;
    const find = (selector) => this.element.querySelector(selector);
    [this.a, this.swap, this.b, this.stop] =
      this.element.querySelectorAll("code, button, input, a");
    this.note = find(".compare-bar p");
    this.note.after(this.pane.choices);
    find(".comparison").append(this.pane.element);
    const open = (url, other) => {
      const view = new URLSearchParams(app.place.view);
      view.set("vs", other);
      app.open(url, view.toString());
    };
    find("form").onsubmit = () => open(app.place.url, this.b.value.trim());
    this.swap.onclick = () => open(this.b.value.trim(), app.place.url);
  }

  /** Show two tables; throws the Problem that the server has with one of them. */
  async show(place) {
    const turn = (this.turn = {});
    const both = [place.url, place.view.get("vs") ?? place.url];
    const [one, other] = both.map((url) => this.app.describe(url));
    const descriptions = await Promise.all([one, other.catch(ofOther(place.url))]);
    const sources = await Promise.all(descriptions.map((each) => chosenSource(each, place.view)));
    if (turn !== this.turn) return;
    [this.a.textContent, this.b.value, this.stop.href] = [...both, place.url];
    const [note, panels] = common(...sources);
    this.note.replaceChildren(panels.d ? `${differing(...descriptions)} ${note}` : note);
    this.draw(place, descriptions[0].view, panels);
    const sizes = descriptions.flatMap(({ arrays }) => arrays.map((each) => Number(each.bytes)));
    const isShort = Math.max(...sizes) <= WHOLE_BYTES;
    const shapes = descriptions.map(({ arrays }) => `${arrays[0].shape}`);
    if (isShort && shapes[0] === shapes[1]) this.measure(turn, both);
  }

  /** Draw one of the choices of panels, and the switch between them. */
  draw(place, of, panels) {
    const kinds = Object.keys(panels);
    const asked = place.view.get("show");
    const show = kinds.includes(asked) ? asked : kinds.at(-1);
    const choose = (text) => {
      this.app.look({ show: kinds.find((each) => SHOWN[each] === text) });
      this.draw(place, of, panels);
    };
    const changed = (changes) => {
      this.app.look(changes);
      this.show(place);
    };
    const texts = kinds.map((each) => SHOWN[each]);
    const shown = buttons("Shown", texts, SHOWN[show], choose);
    this.pane.choices.replaceChildren(
      ...choices({ ...of, grid: null }, place.view, changed),
      shown,
    );
    this.element.hidden = false;
    this.pane.show({ panels: panels[show], view: place.view });
  }

  /** Say what the server finds in all numbers. */
  async measure(turn, [have, to]) {
    const told = h("span", {}, " Largest difference of all: …");
    this.note.append(told);
    const report = await json(`/compare?${new URLSearchParams({ have, to })}`).catch(() => null);
    const worst = report?.largest?.absolute;
    if (turn !== this.turn || !worst) return told.remove();
    const [row, column] = [worst.index[0], worst.index.at(-1)].map(BigInt);
    const onclick = () => this.pane.heatmap.place({ row, column });
    const button = h("button", { type: "button", class: "quiet", onclick }, "Show it");
    return told.replaceChildren(` Largest difference of all: ${real(worst.error, 7)}. `, button);
  }

  close() {
    this.turn = null;
  }
}
