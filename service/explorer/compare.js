// Two tables: one over the other, and their difference over positions and channels.

import { layoutOf } from "./arrays.js";
import { button, h, json, partsOf, real, whole } from "./lib.js";
import { DifferenceSource } from "./sources.js";
import { MatrixPane, buttons, choices, chosenSource } from "./table.js";

const SHOWN = { a: "A", b: "B", ab: "Both", d: "A − B" };
/** The server compares tables as a whole up to so many bytes. */
const WHOLE_BYTES = 128e6;

/** Return in words that two axes are compared as far as both go; false if that is all of them. */
function partOf(axis, ...counts) {
  const [least, most] = counts.map(BigInt).sort((a, b) => (a < b ? -1 : 1));
  return least < most && `The first ${whole(least)} of ${whole(most)} ${axis}s are compared.`;
}

/** Return in words what two sources have in common, and the panels in which they can be shown. */
function together(a, b) {
  const [A, B] = [a, b].map((source, at) => ({ source, name: "AB"[at], label: "AB"[at] }));
  const panels = { a: [A], b: [B] };
  const [one, other] = [a, b].map(({ rows, columns }) => `${rows.axis} × ${columns.axis}`);
  const notes = [`A is ${one}, B is ${other}: they have no numbers in common.`];
  if (one !== other) return { notes, panels };
  const places = ["rows", "columns"];
  const cut = places.map((each) => partOf(a[each].axis, a[each].count, b[each].count));
  const others = places.filter((each) => !a[each].agrees(b[each]));
  const shifts = others.map((each) => `B has other ${a[each].axis}s: shown in order, as of A.`);
  if (!cut.some(Boolean)) panels.ab = [A, B];
  panels.d = [{ source: new DifferenceSource(a, b), name: "A minus B", label: "A − B" }];
  return { notes: [...cut, ...shifts], panels };
}

/** Return in words the parameters in which two sources differ: of other kinds, those of both. */
function differing(...sources) {
  const [a, b] = sources.map(({ description }) => description.parameters);
  const [one, other] = sources.map(({ description }) => description.url.split("?")[0]);
  const kinds = one === other ? "" : `A is of ${one}, B of ${other}: other kinds of tables. `;
  const text = (value = "none") => (typeof value === "string" ? value : JSON.stringify(value));
  const names = Object.keys({ ...a, ...b }).filter((name) => !kinds || (name in a && name in b));
  const differ = names.filter((name) => text(a[name]) !== text(b[name]));
  const changes = differ.map((name) => `${name} ${text(a[name])} → ${text(b[name])}`).join(", ");
  if (!changes) return kinds || "A and B are the same: change B, or a parameter of A.";
  const alone = sources.map(({ part }, at) => part && ` ${"AB"[at]} is ${part} alone.`);
  const isPacking = !kinds && differ.join() === "pack" && !/angle/.test([a.pack, b.pack]);
  const isWhole = sources[0].part === sources[1].part;
  const held = isPacking && isWhole && " Both hold the same numbers, in other places.";
  return [`${kinds}${changes}.`, held, ...(isWhole ? [] : alone)].filter(Boolean).join("");
}

/** Two tables at their addresses: A at that of the page, B in the fragment. */
export class CompareView {
  constructor(app) {
    const pane = new MatrixPane((changes) => app.look(changes));
    Object.assign(this, { app, pane }, partsOf("comparison"));
    this.note.after(this.pane.choices);
    this.comparison.append(this.pane.element);
    this.stop.onclick = () => app.open(app.place.url, app.alone());
    const open = (url, other) => {
      const view = new URLSearchParams(app.place.view);
      view.set("vs", other);
      app.open(url, view.toString());
    };
    this.form.onsubmit = () => open(app.place.url, this.b.value.trim());
    this.swap.onclick = () => open(this.b.value.trim(), app.place.url);
  }

  /** Show two tables; throws the Problem that the server has with one of them. */
  async show(place) {
    const both = [place.url, place.view.get("vs") ?? place.url];
    [this.a.textContent, this.b.value] = both;
    const [one, other] = both.map((url) => this.app.describe(url));
    const B = other.catch((problem) => this.refuse(problem, place));
    const descriptions = await Promise.all([one, B]);
    const leadings = descriptions.flatMap(({ view }) => view.leading ?? []);
    const [leading] = leadings.sort((a, b) => a.count - b.count);
    // One head is compared with that of all which it is, until another is chosen.
    const own = descriptions.find(({ view }) => !view.leading)?.parameters[leading?.axis] ?? null;
    if (own !== null && !place.view.has("head")) this.app.look({ head: own });
    const chosen = descriptions.map((each) => chosenSource(each, place.view, leading?.count));
    const sources = await Promise.all(chosen);
    if (place !== this.app.place) return;
    const { notes: common, panels } = together(...sources);
    const counts = leadings.map(({ count }) => count);
    const heads =
      counts.length > 1
        ? partOf(leading.axis, ...counts)
        : own !== null && `One is ${leading.axis} ${own} alone; the other is shown at that chosen.`;
    const notes = [panels.d && differing(...sources), ...common, heads];
    this.note.replaceChildren(notes.filter(Boolean).join(" "));
    this.draw(place, { ...descriptions[0].view, leading, grid: null }, panels);
    const [first, second] = descriptions.map(({ arrays }) => arrays);
    const isShort = [...first, ...second].every((each) => Number(each.bytes) <= WHOLE_BYTES);
    const kind = (all) => [all.length, all[0].shape, /complex/.test(all[0].dtype)].join();
    if (isShort && kind(first) === kind(second))
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
    const show = kinds.find((each) => each === place.view.get("show")) ?? kinds.at(-1);
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
    const { head, ...cell } = layoutOf(description.arrays[0], description).cellOf(worst);
    const onclick = async () => {
      if (Number(place.view.get("head")) !== head) {
        this.app.look({ head });
        await this.show(place);
      }
      this.pane.heatmap.place(cell);
      this.pane.heatmap.canvas.focus();
    };
    const shown = button("Show it", onclick, "quiet");
    return told.replaceChildren(`${text}${real(worst.error, 7)}. `, shown);
  }
}
