// Choosing an encoding: the search over the catalogue, and the form of the chosen entry.

import { announce, copied, fill, h, json, partsOf } from "./lib.js";

const APPLY_AFTER = 300;
const BOUNDS = {
  minimum: "at least",
  exclusive_minimum: "above",
  maximum: "at most",
  multiple_of: "a multiple of",
  default: "default",
};

/** The size in the published name of a model, as of Llama-3.2-1B, and what follows it. */
const SIZE = /[-_ ](\d+(\.\d+)?[bm]|tiny|mini|small|base|medium|large)\b.*/;
const WIDE = matchMedia("(min-width: 720px)");

/** Return path and query as one URL, with commas and colons left readable. */
function urlOf(path, pairs) {
  const query = String(new URLSearchParams(pairs)).replace(/%(2C|3A|2F)/g, decodeURIComponent);
  return query ? `${path}?${query}` : path;
}

/** Return whether words of a text, joined or by hyphens and underscores, begin with a word. */
const begins = (text, word, before = "(^|[^a-z0-9])") =>
  RegExp(before + [...word].join("[-_]?"), "i").test(text);

/** Return whether two words differ, whatever the order of their letters, by at most so many. */
function isNear(one, other, most) {
  const missing = [...one].reduce((rest, letter) => rest.replace(letter, ""), other).length;
  return missing <= most && one.length - other.length + missing <= most;
}

/** Return how well an entry answers a search: 0 where a word may be misspelt, −1 where not. */
function score({ id, title, summary, path, group, fixed, parameters, models = "" }, words) {
  const name = `${title} ${id} ${models}`.toLowerCase();
  const named = [...Object.keys(fixed), ...parameters];
  const all = `${name} ${summary} ${path} ${group} ${named}`.replace(/@[^,]*/g, "");
  const kind = (word) => word[0] + word.replace(/\D/g, "");
  const isLike = (word) => (each) =>
    kind(word) === kind(each) && isNear(word, each, Math.floor((word.length - 2) / 3));
  const near = (word) => name.split(/[\W_]+/).some(isLike(word));
  const starts = (word) => [title, group].some((text) => begins(text, word, "^"));
  const rate = (word) =>
    [near(word), begins(all, word), begins(name, word), starts(word)].lastIndexOf(true);
  return Math.min(3, ...words.map(rate));
}

/** The column at the left: search, list of encodings, and the parameters of the chosen one. */
export class EncodingPanel {
  /** @param {HTMLDetailsElement} element where they are */
  constructor(app, element) {
    Object.assign(this, { app, element }, partsOf(element));
    this.form = new ParameterForm(app, this.parameters);
    this.search.oninput = () => this.list();
    this.search.onkeydown = (event) => this.move(event);
    WIDE.onchange = () => (element.open = WIDE.matches);
    element.open = WIDE.matches;
  }

  /** Show a place: its entry chosen, its parameters in the form, and what is wrong with them. */
  async show(place) {
    this.catalogue = await this.app.catalogue();
    if (place !== this.app.place || this.app.aside.hidden) return;
    const entry = this.entryOf(place);
    this.chosen.textContent = entry?.title ?? place.path;
    if (entry !== this.entry || !this.options.firstChild) {
      this.entry = entry;
      this.search.value = "";
      this.list();
    }
    this.form.show(this.catalogue, entry, place);
  }

  /** Return the entry that a place belongs to; the first of a path is that of its defaults. */
  entryOf({ path, query, isTable }) {
    const given = new URLSearchParams(query);
    const known = ({ fixed }) => Object.keys(fixed).filter((name) => given.has(name));
    const fit = (entry) =>
      known(entry).length + (entry.required.every((name) => given.has(name)) ? 10 : 0);
    const fitting = this.catalogue.entries.filter(
      (each) =>
        each.path === path &&
        (each.method === "GET") === isTable &&
        known(each).every((name) => given.get(name) === each.fixed[name]),
    );
    return fitting.sort((one, other) => fit(other) - fit(one))[0];
  }

  /** List the entries that answer the search: groups in the order of their best entries. */
  list() {
    const { groups, entries } = this.catalogue;
    const typed = this.search.value.trim().toLowerCase().replace(SIZE, "");
    // "Llama 3.1" is llama3, as in the names of models.
    const named = typed.replace(/[-_]/g, "").replace(/([a-z]) ?(\d+)(\.\d+)*/g, "$1$2");
    const place = ({ group }) => groups.findIndex(({ id }) => id === group);
    const rate = (text) => {
      const words = text.match(/[a-z0-9]+/g) ?? [];
      const rated = entries.map((entry) => ({ entry, score: score(entry, words) }));
      return rated.sort((a, b) => b.score - a.score || place(a.entry) - place(b.entry));
    };
    const [joined, apart] = [rate(named), rate(typed)];
    const rated = joined[0].score > 0 ? joined : apart;
    const isFound = rated[0].score > 0;
    const those = rated.filter((each) => each.score >= Number(isFound)).map(({ entry }) => entry);
    const option = (entry, at, all) => {
      const { id, title, summary, method, path } = entry;
      const state = { "aria-selected": String(entry === this.entry), title: summary };
      const about = { role: "option", id: `option-${id}`, "data-id": id, ...state };
      const isOther = path !== all[at - 1]?.path;
      const where = isOther && h("small", {}, method === "POST" && "POST ", path);
      const name = h("span", {}, title.split(", ").at(-1));
      return h("div", { ...about, onclick: () => this.choose(entry) }, name, where);
    };
    const listed = [...Map.groupBy(those, place)].map(([at, all]) => {
      const options = all.map(option);
      return h("div", { role: "group", "aria-label": groups[at].title }, options);
    });
    const [nothing, model] = copied("nothing").children;
    model.href = "/#view=model";
    fill(this.options, isFound ? listed : [nothing, listed, model]);
    const first = typed ? "[data-id]" : "[aria-selected=true]";
    this.activate(isFound ? this.options.querySelector(first) : null);
    if (typed) announce(isFound ? `${those.length} encodings` : nothing.textContent);
  }

  activate(option) {
    this.active?.classList.remove("active");
    this.active = option;
    this.search.setAttribute("aria-activedescendant", option?.id ?? "");
    if (!option) return;
    option.classList.add("active");
    option.scrollIntoView({ block: "nearest" });
  }

  move(event) {
    const all = [...this.options.querySelectorAll("[data-id]")];
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step && all.length) {
      const next = this.active ? all.indexOf(this.active) + step : 0;
      this.activate(all[Math.max(0, Math.min(all.length - 1, next))]);
    } else if (event.key === "Enter" && this.active) {
      this.active.click();
    } else if (event.key === "Escape" && this.search.value) {
      this.search.value = "";
      this.list();
    } else return;
    event.preventDefault();
  }

  choose({ method, path, example }) {
    const { view } = this.app.place;
    const kept = new URLSearchParams([...view].filter(([name]) => /^(vs|show)$/.test(name)));
    if (method === "GET") this.app.open(example, kept);
    else this.app.open(`/#view=post&entry=${path.slice(1)}`);
    this.element.open = WIDE.matches;
  }
}

/** The parameters of one entry of the catalogue as a form; a change opens the table it asks for. */
class ParameterForm {
  constructor(app, element) {
    Object.assign(this, { app, element, fields: new Map() }, partsOf(element));
    element.oninput = ({ target }) => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.apply(target.name), APPLY_AFTER);
    };
    element.onchange = ({ target }) => {
      this.apply(target.name);
      history.replaceState(null, "");
    };
  }

  /** Show the parameters of an entry with the values of a place, and what its URL has beside. */
  show(catalogue, entry, place) {
    clearTimeout(this.timer);
    this.place = place;
    this.pairs = [...new URLSearchParams(place.query)];
    const fixed = entry?.fixed ?? {};
    const keys = entry?.method === "GET" ? entry.parameters : [];
    const all = keys.map((key) => catalogue.parameters[key]);
    const known = all.filter(({ name }) => !(name in fixed));
    const names = new Set([...Object.keys(fixed), ...known.map(({ name }) => name)]);
    const description = "Not a parameter of this table.";
    for (const [name] of this.pairs) if (!names.has(name)) known.unshift({ name, description });
    const content = [entry?.id, ...known.map(({ name }) => name)].join();
    if (content !== this.content) {
      this.content = content;
      this.build(entry, known);
    }
    const values = new Map(this.pairs);
    for (const [name, field] of this.fields) field.show(values.get(name));
    this.refuse(place.faults ?? []);
  }

  /** Make the fields; those that the example and the URL do without are folded. */
  build(entry, parameters) {
    const example = new URLSearchParams(entry?.example.split("?")[1]);
    const given = new Set([...example.keys(), ...this.pairs.map(([name]) => name)]);
    const isShown = ({ name, choices, default: standard }) =>
      entry?.required.includes(name) || given.has(name) || (choices && standard !== undefined);
    this.fields = new Map();
    const [shown, folded] = [[], []];
    for (const parameter of parameters) {
      const field = new Field(parameter, entry?.required.includes(parameter.name));
      this.fields.set(parameter.name, field);
      (isShown(parameter) ? shown : folded).push(field.element);
    }
    fill(this.shown, shown);
    fill(this.folded, this.others, folded);
    this.others.textContent = `More parameters: ${folded.length}`;
    this.folded.hidden = !folded.length;
    this.unknown.hidden = Boolean(entry);
    this.title.hidden = this.about.hidden = !entry;
    if (!entry) return;
    fill(this.title, entry.title, h("code", {}, entry.path));
    this.name.textContent = `About ${entry.title}`;
    this.summary.textContent = entry.summary;
    this.folded.open = this.about.open = false;
    fill(this.texts);
    this.about.ontoggle = () => this.document(entry);
  }

  /** Show the documentation of an entry, which is fetched when it is opened for the first time. */
  async document({ id }) {
    if (this.texts.firstChild) return;
    const { entries } = await json(`/catalogue?entry=${encodeURIComponent(id)}`, {}, "entries");
    const parts = Object.entries(entries[0].docs).filter(([, text]) => text);
    fill(this.texts, ...parts.map(([name, text]) => [h("h3", {}, name), h("p", {}, text)]));
  }

  /** Show the errors of a refused request at their fields, with the suggestion as a button. */
  refuse(faults) {
    for (const [name, field] of this.fields) {
      const fault = faults.find((each) => each.parameter === name);
      const repaired = ([given, value]) => {
        if (given !== name) return [given, value];
        return field.isKnown ? [name, fault.suggestion] : [fault.suggestion, value];
      };
      field.refuse(fault, () => {
        const url = urlOf(this.place.path, this.pairs.map(repaired));
        this.app.open(url, this.app.place.view);
      });
    }
    this.element.querySelector(".wrong")?.scrollIntoView({ block: "nearest" });
  }

  /** Open the table that the fields ask for, after a change of one. */
  apply(changed) {
    clearTimeout(this.timer);
    const pairs = new Map(this.pairs);
    for (const [name, field] of this.fields) {
      const value = field.read();
      if (value !== "" && (pairs.has(name) || value !== field.standard)) pairs.set(name, value);
      else pairs.delete(name);
    }
    const url = urlOf(this.place.path, [...pairs]);
    if (url !== urlOf(this.place.path, this.pairs))
      this.app.open(url, this.app.place.view, changed);
  }
}

/** One parameter: its label, its input, its description, and what is wrong with its value. */
class Field {
  constructor(parameter, isRequired) {
    const { name, type, choices = type === "boolean" && ["false", "true"] } = parameter;
    Object.assign(this, partsOf("field"));
    this.isKnown = type !== undefined;
    this.standard = String(parameter.default ?? (type === "boolean" ? "false" : ""));
    const [input, other] = choices ? [this.choice, this.text] : [this.text, this.choice];
    other.remove();
    this.input = input;
    const values = new Set([this.standard, ...(choices || []).map(String)]);
    const option = (value) => h("option", { value }, value || "–");
    fill(this.choice, [...values].map(option));
    const id = `parameter-${name}`;
    Object.assign(this.input, { id, name, placeholder: this.standard });
    this.input.inputMode = { integer: "numeric", number: "decimal" }[type] ?? "";
    this.input.setAttribute("aria-describedby", `${id}-help ${id}-refusal`);
    this.input.ariaRequired = isRequired ? "true" : null;
    this.label.htmlFor = id;
    const parts = name.split(/(?=_)/).map((part) => [h("wbr"), part]);
    fill(this.label, parts, isRequired && h("abbr", { title: "required" }, "*"));
    this.help.id = `${id}-help`;
    const bounds = Object.entries(BOUNDS)
      .filter(([bound]) => (parameter[bound] ?? null) !== null)
      .map(([bound, text]) => `${text} ${parameter[bound]}`);
    fill(this.help, parameter.description, h("small", {}, bounds.join(", ")));
    this.refusal.id = `${id}-refusal`;
    this.element.addEventListener("keydown", ({ key }) =>
      this.element.classList.toggle("silent", key === "Escape"),
    );
  }

  /** Show the value of the URL, or the default where it has none. */
  show(value) {
    const text = value ?? (this.input === this.choice ? this.standard : "");
    this.element.classList.toggle("set", value !== undefined);
    // What is being typed keeps its spaces.
    if (this.read() === text) return;
    this.input.value = text;
    if (this.choice.value !== text) this.choice.add(new Option(text, text, true, true));
  }

  /** Return the value as the URL has it; nothing where the field is empty. */
  read() {
    return this.input.value.trim();
  }

  refuse(fault, repair) {
    const { detail = "", suggestion = null } = fault ?? {};
    this.input.ariaInvalid = fault ? "true" : null;
    this.element.classList.toggle("wrong", Boolean(fault));
    this.detail.textContent = detail;
    this.repair.hidden = suggestion === null;
    this.repair.textContent = `Use ${suggestion}`;
    this.repair.onclick = repair;
    const folded = this.element.closest("form details");
    if (fault && folded) folded.open = true;
  }
}
