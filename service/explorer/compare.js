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
    (each) => `B has others along ${a[each].axis}: ${each} are compared in order, by those of A.`,
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
  const isPacking = differ.join() === "pack" && ![a, b].some(({ pack }) => /angle/.test(pack));
  return `${changes.join(", ")}.${isPacking ? " Both hold the same numbers, in other places." : ""}`;
}

/** Return the head, if there are several, and the row and column in the view of a place. */
function cellOf({ index, part }, { arrays: [{ shape }], axes, view: { leading, columns } }) {
  const head = axes.indexOf(leading?.axis);
  const others = [...axes.keys()].filter((axis) => axis !== head);
  if (axes[0].startsWith("channel")) others.push(others.shift());
  const numbers = others.map((axis) => [shape[axis], index[axis]]);
  if (part) numbers.push([2, Number(part === "imaginary")]);
  const place = numbers.reduce((sum, [length, at]) => sum * BigInt(length) + BigInt(at), 0n);
  const width = BigInt(columns.count);
  return { head: index[head], row: place / width, column: place % width };
}

/** Two tables at their addresses: A at that of the page, B in the fragment. */
export class CompareView {
  constructor(app) {
    this.app = app;
    this.pane = new MatrixPane((changes) => app.look(changes));
    [this.element] = copied("comparison").children;
    const find = (selector) => this.element.querySelector(selector);
    this.comparison = find(".comparison");
    [this.a, this.swap, this.b, this.stop] =
      this.element.querySelectorAll("code, button, input, a");
    this.note = find(".compare-bar p");
    this.note.after(this.pane.choices);
    this.comparison.append(this.pane.element);
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
    const both = [place.url, place.view.get("vs") ?? place.url];
    [this.a.textContent, this.b.value, this.stop.href] = [...both, place.url];
    const [one, other] = both.map((url) => this.app.describe(url));
    const refuse = (problem) => this.refuse(problem, place);
    const descriptions = await Promise.all([one, other.catch(refuse)]);
    const leadings = descriptions.flatMap(({ view }) => view.leading ?? []);
    const [leading] = leadings.sort((a, b) => a.count - b.count);
    const chosen = descriptions.map((each) => chosenSource(each, place.view, leading?.count));
    const sources = await Promise.all(chosen);
    if (place !== this.app.place) return;
    const [note, panels] = common(...sources);
    const heads = leadings.map((each) => each.count);
    const cut = heads[0] !== (heads[1] ?? heads[0]);
    const ofHeads = cut && `The first ${heads[0]} of ${heads[1]} ${leading.axis}s are compared.`;
    const notes = [panels.d && differing(...descriptions), note, ofHeads];
    this.note.replaceChildren(notes.filter(Boolean).join(" "));
    this.draw(place, { ...descriptions[0].view, leading, grid: null }, panels);
    const sizes = descriptions.flatMap(({ arrays }) => arrays.map((each) => Number(each.bytes)));
    const isShort = Math.max(...sizes) <= WHOLE_BYTES;
    const shapes = descriptions.map(({ arrays }) => `${arrays[0].shape}`);
    if (isShort && shapes[0] === shapes[1])
      this.measure(place, both, descriptions[0], sources[0].part);
  }

  /** Throw a Problem as one with B, whose field stays; its links compare the repaired B. */
  refuse(problem, place) {
    if (place === this.app.place) {
      this.element.hidden = false;
      this.comparison.hidden = true;
    }
    const link = (url) => url && `${place.url}#vs=${encodeURIComponent(url)}`;
    const own = (each) => ({ ...each, parameter: null, url: link(each.url) });
    const [title, errors] = [`B: ${problem.title}`, problem.errors?.map(own)];
    throw Object.assign(problem, { title, errors, isOfOther: true });
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
    this.pane.choices.replaceChildren(...choices(of, place.view, changed), shown);
    this.element.hidden = this.comparison.hidden = false;
    this.pane.show({ panels: panels[show], view: place.view });
  }

  /** Say what the server finds in all numbers, of one array where there are several. */
  async measure(place, [have, to], description, part) {
    const text = ` Largest difference of all${part ? ` of ${part}` : ""}: `;
    const told = h("span", {}, text, "…");
    this.note.append(told);
    const report = await json(`/compare?${new URLSearchParams({ have, to })}`).catch(() => null);
    const worst = (report?.arrays?.[part] ?? report)?.largest?.absolute;
    if (!worst) return told.remove();
    const { head, ...cell } = cellOf(worst, description);
    const onclick = async () => {
      if (Number(place.view.get("head")) !== (head ?? 0)) {
        this.app.look({ head });
        await this.show(place);
      }
      this.pane.heatmap.place(cell);
      this.pane.heatmap.canvas.focus();
    };
    const button = h("button", { type: "button", class: "quiet", onclick }, "Show it");
    return told.replaceChildren(`${text}${real(worst.error, 7)}. `, button);
  }
}
