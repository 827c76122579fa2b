// Two tables: one over the other, and their difference over positions and channels.

import { h, json, real, whole } from "./lib.js";
import { DifferenceSource } from "./sources.js";
import { MatrixPane, buttons, choices, chosenSource } from "./table.js";

const SHOWN = { a: "A", b: "B", ab: "Both", d: "A − B" };
/** The server compares tables as a whole up to so many bytes. */
const WHOLE_BYTES = 128e6;

/** Return in words what two sources have in common, and whether they have. */
function common(a, b) {
  const [one, other] = [a, b].map(({ rows, columns }) => `${rows.axis} × ${columns.axis}`);
  if (one !== other) return [`A is ${one}, B is ${other}: they have no numbers in common.`, false];
  const cut = ["rows", "columns"].filter((each) => a[each].count !== b[each].count);
  const parts = cut.map((each) => {
    const counts = [a[each].count, b[each].count].sort((own, theirs) => (own < theirs ? -1 : 1));
    return `the first ${whole(counts[0])} of ${whole(counts[1])} ${a[each].axis}s`;
  });
  const [first, second] = [a.rows.at(0n), b.rows.at(0n)];
  const shift = `A begins at ${a.rows.axis} ${first}, B at ${second}: rows are compared in order.`;
  const notes = [parts.length && `Compared: ${parts.join(", ")}.`, first !== second && shift];
  return [notes.filter(Boolean).join(" "), true];
}

/** A pane for two sources, with a switch between A, B, both, and the difference. */
export class ComparisonPane {
  constructor(look = (_changes) => {}) {
    this.look = look;
    this.pane = new MatrixPane(look);
    this.note = h("p", {});
    const bar = h("div", { class: "compare-bar" }, this.note, this.pane.choices);
    this.element = h("div", { class: "comparison" }, bar, this.pane.element);
  }

  /** Show sources `a` and `b`, with the fragment, marks, and more elements beside the switch. */
  show({ a, b, view = new URLSearchParams(), marks, more = [] }) {
    const [note, isPossible] = common(a, b);
    this.note.replaceChildren(note);
    const isSame = a.rows.count === b.rows.count && a.columns.count === b.columns.count;
    const [A, B] = [a, b].map((source, at) => ({ source, name: "AB"[at], label: "AB"[at] }));
    const panels = { a: [A], b: [B] };
    if (isPossible && isSame) panels.ab = [A, B];
    const names = { name: "A minus B", label: "A − B" };
    if (isPossible) panels.d = [{ source: new DifferenceSource(a, b), ...names }];
    const draw = () => {
      const show = view.get("show") in panels ? view.get("show") : Object.keys(panels).at(-1);
      const choose = (text) => {
        const chosen = Object.keys(panels).find((each) => SHOWN[each] === text);
        view.set("show", chosen);
        this.look({ show: chosen });
        draw();
      };
      const texts = Object.keys(panels).map((each) => SHOWN[each]);
      const shown = buttons("Shown", texts, SHOWN[show], choose);
      this.pane.choices.replaceChildren(...more, shown);
      this.pane.show({ panels: panels[show], marks, view, other: show === "d" ? b : null });
    };
    draw();
  }
}

/** Return the parameters in which two descriptions differ, as "name A → B". */
function differing({ parameters: a }, { parameters: b }) {
  const text = (value = "none") => (typeof value === "string" ? value : JSON.stringify(value));
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  const differ = names.filter((name) => text(a[name]) !== text(b[name]));
  return differ.map((name) => `${name} ${text(a[name])} → ${text(b[name])}`);
}

/** Two tables at their addresses: A at that of the page, B in the fragment. */
export class CompareView {
  constructor(app) {
    this.app = app;
    this.comparison = new ComparisonPane((changes) => app.look(changes));
    this.a = h("code", {});
    this.b = h("input", { "aria-label": "B", autocomplete: "off", spellcheck: "false" });
    this.stop = h("a", {}, "Stop");
    const open = (url, other) => {
      const view = new URLSearchParams(app.place.view);
      view.set("vs", other);
      app.open(url, view.toString());
    };
    const onsubmit = (event) => {
      event.preventDefault();
      open(app.place.url, this.b.value.trim());
    };
    const onclick = () => open(this.b.value.trim(), app.place.url);
    const swap = h("button", { type: "button", class: "quiet", onclick }, "Swap");
    this.element = h(
      "div",
      {},
      h("h1", { class: "unseen" }, "Comparison of two tables"),
      h("div", { class: "compare-line" }, h("b", {}, "A"), this.a, swap),
      h("form", { class: "compare-line", onsubmit }, h("b", {}, "B"), this.b, this.stop),
      this.comparison.element,
    );
  }

  /** Show two tables; throws the Problem that the server has with one of them. */
  async show(place) {
    const turn = (this.turn = {});
    const both = [place.url, place.view.get("vs") ?? place.url];
    [this.a.textContent, this.b.value, this.stop.href] = [...both, place.url];
    const [a, b] = await Promise.all(both.map((url) => this.app.describe(url)));
    const sources = await Promise.all([a, b].map((each) => chosenSource(each, place.view)));
    if (turn !== this.turn) return;
    const changed = (changes) => {
      this.app.look(changes);
      this.show(place);
    };
    const more = choices({ ...a.view, grid: null }, place.view, changed);
    this.comparison.show({ a: sources[0], b: sources[1], view: place.view, more });
    const { note } = this.comparison;
    const same = "A and B are the same: change B, or a parameter of A.";
    const changes = differing(a, b).join(", ");
    if (a.entry.split(":")[0] === b.entry.split(":")[0])
      note.append(` ${changes ? `${changes}.` : same}`);
    const sizes = [a, b].flatMap(({ arrays }) => arrays.map((each) => Number(each.bytes)));
    const isShort = Math.max(...sizes) <= WHOLE_BYTES;
    if (isShort && `${a.arrays[0].shape}` === `${b.arrays[0].shape}`)
      this.measure(turn, note, both);
  }

  /** Say what the server finds in all numbers. */
  async measure(turn, note, [have, to]) {
    const told = h("span", {}, " Largest difference of all: …");
    note.append(told);
    const report = await json(`/compare?${new URLSearchParams({ have, to })}`).catch(() => null);
    const worst = report?.largest?.absolute;
    if (turn !== this.turn || !worst) return told.remove();
    const [row, column] = [worst.index[0], worst.index.at(-1)].map(BigInt);
    const onclick = () => this.comparison.pane.heatmap.place({ row, column });
    const button = h("button", { type: "button", class: "quiet", onclick }, "Show it");
    return told.replaceChildren(` Largest difference of all: ${real(worst.error, 7)}. `, button);
  }

  close() {
    this.turn = null;
  }
}
