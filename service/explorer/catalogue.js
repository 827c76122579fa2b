// Choosing an encoding: the search over the catalogue, and the form of the chosen entry.

import { copied, h, json } from "./lib.js";

const APPLY_AFTER = 300;
const BOUNDS = [
  ["minimum", "at least"],
  ["exclusive_minimum", "above"],
  ["maximum", "at most"],
  ["multiple_of", "a multiple of"],
  ["default", "default"],
];
const WIDE = matchMedia("(min-width: 720px)");

/** Return path and query as one URL, with commas and colons left readable. */
function urlOf(path, pairs) {
  const query = String(new URLSearchParams(pairs)).replace(/%(2C|3A|2F)/g, decodeURIComponent);
  return query ? `${path}?${query}` : path;
}

/** Return the name of a rule or convention beside others of its family. */
const nameOf = ({ title }) => title.split(", ").at(-1);

/** Return how well an entry answers a search: 0 where a word of it is nowhere. */
function score({ id, title, summary, path }, words) {
  const name = nameOf({ title }).toLowerCase();
  const fields = [
    [8, `${id} ${title}`],
    [3, `${summary} ${path}`],
  ];
  const scores = words.map((word) => {
    const found = fields.find(([, text]) => text.toLowerCase().includes(word));
    return found ? found[0] + (name.startsWith(word) ? 1 : 0) : 0;
  });
  return Math.min(...scores, 9);
}

/** The column at the left: search, list of encodings, and the parameters of the chosen one. */
export class EncodingPanel {
  /** @param {HTMLDetailsElement} element where they are */
  constructor(app, element) {
    this.app = app;
    this.element = element;
    [this.name, this.search, this.options] = element.querySelectorAll("b, input, #encodings");
    this.form = new ParameterForm(app, element.querySelector("form"));
    this.search.addEventListener("input", () => this.list());
    this.search.addEventListener("keydown", (event) => this.move(event));
    const fold = () => (element.open = WIDE.matches);
    WIDE.addEventListener("change", fold);
    fold();
  }

  /** Show a place: its entry chosen, its parameters in the form. */
  async show(place) {
    await this.app.catalogue.catch(() => null);
    if (!this.catalogue || place !== this.app.place) return;
    const entry = this.entryOf(place);
    this.name.textContent = entry?.title ?? place.path;
    if (entry !== this.entry || !this.options.firstChild) {
      this.entry = entry;
      this.search.value = "";
      this.list();
    }
    this.form.show(this.catalogue, entry, place);
    this.form.refuse(this.faults);
  }

  /** Show the errors of a refused request at their fields. */
  refuse(faults) {
    this.faults = faults;
    this.form.refuse(faults);
  }

  /** Return true where a path is that of a table. */
  isTable(path) {
    return this.catalogue?.entries.some((each) => each.method === "GET" && each.path === path);
  }

  /** Return the entry that a place belongs to: all of its required parameters are there. */
  entryOf({ path, query, view }) {
    const { entries, parameters } = this.catalogue;
    const posted = view.get("entry") ?? "positions";
    if (view.get("view") === "post") return entries.find(({ id }) => id === posted);
    const given = new URLSearchParams(query);
    const valueOf = (name) =>
      given.get(name) ?? (parameters[`${name}@${path}`] ?? parameters[name])?.default;
    const fit = ({ method, path: own, fixed, required }) => {
      const values = Object.entries(fixed).map(([name, value]) => [value, valueOf(name)]);
      const isOther = values.some(([value, here]) => here !== undefined && here !== value);
      if (method !== "GET" || own !== path || isOther) return -1;
      const known = values.filter(([, here]) => here !== undefined).length;
      return known + (required.every((name) => given.has(name)) ? 10 : 0);
    };
    const fits = entries.map(fit);
    const best = Math.max(...fits);
    return best < 0 ? undefined : entries[fits.indexOf(best)];
  }

  list() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rated = this.catalogue.entries
      .map((entry) => ({ entry, score: score(entry, words) }))
      .filter((each) => each.score > 0)
      .sort((a, b) => b.score - a.score);
    const titles = new Map(this.catalogue.groups.map(({ id, title }) => [id, title]));
    const ids = new Set(words.length ? rated.map(({ entry }) => entry.group) : titles.keys());
    this.options.replaceChildren(
      ...[...ids].map((id) =>
        h(
          "div",
          { role: "group", "aria-label": titles.get(id) },
          h("div", { class: "group", "aria-hidden": "true" }, titles.get(id)),
          rated
            .filter(({ entry }) => entry.group === id)
            .map(({ entry }, at, all) => this.option(entry, all[at - 1]?.entry)),
        ),
      ),
    );
    if (!rated.length)
      this.options.append(
        h(
          "div",
          { role: "option", "aria-disabled": "true" },
          "Nothing found. For a model, see Model.",
        ),
      );
    this.activate(this.options.querySelector(words.length ? "[data-id]" : "[aria-selected=true]"));
    if (words.length) this.app.announce(`${rated.length} encodings`);
  }

  /** Return an entry as an option, with its path where that of the one before is another. */
  option(entry, before) {
    const attributes = {
      role: "option",
      id: `option-${entry.id}`,
      "data-id": entry.id,
      title: entry.summary,
      "aria-selected": String(entry === this.entry),
      onclick: () => this.choose(entry),
    };
    const where = h("small", {}, `${entry.method === "POST" ? "POST " : ""}${entry.path}`);
    const name = nameOf(entry);
    return h("div", attributes, h("span", {}, name), entry.path !== before?.path && where);
  }

  activate(option) {
    this.active?.classList.remove("active");
    this.active = option;
    this.search.setAttribute("aria-activedescendant", option?.id ?? "");
    if (!option) return;
    option.classList.add("active");
    const { offsetTop: top, offsetHeight: height } = option;
    const { scrollTop, clientHeight } = this.options;
    if (top < scrollTop || top + height > scrollTop + clientHeight)
      this.options.scrollTop = top - clientHeight / 2;
  }

  move(event) {
    const all = [...this.options.querySelectorAll("[data-id]")];
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step && all.length) {
      const next = this.active ? all.indexOf(this.active) + step : 0;
      this.activate(all[Math.max(0, Math.min(all.length - 1, next))]);
    } else if (event.key === "Enter" && this.active) {
      this.choose(this.catalogue.entries.find((each) => each.id === this.active.dataset.id));
    } else if (event.key === "Escape" && this.search.value) {
      this.search.value = "";
      this.list();
    } else return;
    event.preventDefault();
  }

  choose(entry) {
    const { view } = this.app.place;
    const kept = new URLSearchParams([...view].filter(([name]) => /^(vs|show)$/.test(name)));
    if (entry.method === "GET") this.app.open(entry.example, kept);
    else this.app.open("/", `view=post&entry=${encodeURIComponent(entry.id)}`);
    this.element.open = WIDE.matches;
  }
}

/** The parameters of one entry of the catalogue as a form; a change opens the table it asks for. */
class ParameterForm {
  constructor(app, element) {
    this.app = app;
    this.element = element;
    this.fields = new Map();
    element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.apply();
    });
    // While one field is edited, each table replaces the one before: Back undoes all of it.
    element.addEventListener("focusin", () => (this.isEdited = false));
    element.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.apply(), APPLY_AFTER);
    });
  }

  /** Show the parameters of an entry with the values of a place, and what its URL has beside. */
  show(catalogue, entry, place) {
    clearTimeout(this.timer);
    this.place = place;
    this.pairs = place.isTable ? [...new URLSearchParams(place.query)] : [];
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
  }

  /** Make the fields; those that the example and the URL do without are folded. */
  build(entry, parameters) {
    const example = new URLSearchParams(entry?.example.split("?")[1]);
    const given = new Set([...example.keys(), ...this.pairs.map(([name]) => name)]);
    const shown = [];
    const folded = [];
    this.fields = new Map();
    for (const parameter of parameters) {
      const isRequired = entry?.required.includes(parameter.name);
      const field = new Field(parameter, isRequired);
      this.fields.set(parameter.name, field);
      const isChoice = parameter.choices && parameter.default !== undefined;
      const isShown = isRequired || isChoice || given.has(parameter.name);
      (isShown ? shown : folded).push(field.element);
    }
    const others = h("summary", {}, `${folded.length} more parameters`);
    this.element.replaceChildren(
      entry
        ? h("h2", { class: "label" }, entry.title, h("code", {}, entry.path))
        : h("p", { class: "muted" }, "No table has this address. Choose an encoding above."),
      ...shown,
      folded.length ? h("details", {}, others, folded) : "",
      entry ? about(entry) : "",
      h("button", { class: "unseen", tabindex: "-1" }, "Open"),
    );
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

  apply() {
    clearTimeout(this.timer);
    const pairs = new Map(this.pairs);
    for (const [name, field] of this.fields) {
      const value = field.read();
      if (value !== "" && (pairs.has(name) || value !== field.standard)) pairs.set(name, value);
      else pairs.delete(name);
    }
    const url = urlOf(this.place.path, [...pairs]);
    if (url === urlOf(this.place.path, this.pairs)) return;
    this.app.open(url, this.app.place.view, this.isEdited);
    this.isEdited = true;
  }
}

/** Return the documentation of an entry, which is fetched when it is opened for the first time. */
function about({ id, title, summary }) {
  const texts = h("div");
  const label = (name) => name[0].toUpperCase() + name.slice(1);
  const load = async () => {
    if (texts.firstChild) return;
    const { entries } = await json(`/catalogue?entry=${encodeURIComponent(id)}`);
    const parts = Object.entries(entries[0].docs).filter(([, text]) => text);
    texts.replaceChildren(
      ...parts.flatMap(([name, text]) => [h("h3", {}, label(name)), h("p", {}, text)]),
    );
  };
  const summaryText = h("summary", {}, `About ${title}`);
  return h("details", { class: "about", ontoggle: load }, summaryText, h("p", {}, summary), texts);
}

/** One parameter: its label, its input, its description, and what is wrong with its value. */
class Field {
  constructor(parameter, isRequired) {
    const { name, type, choices } = parameter;
    const id = `parameter-${name}`;
    const attributes = { id, name, "aria-describedby": `${id}-help ${id}-refusal` };
    if (isRequired) attributes["aria-required"] = "true";
    this.isKnown = type !== undefined;
    this.isBoolean = type === "boolean";
    this.standard = String(parameter.default ?? (this.isBoolean ? "false" : ""));
    if (choices) {
      const options = [...new Set([this.standard, ...choices.map(String)])];
      const option = (value) => h("option", { value }, value || "–");
      this.input = h("select", attributes, options.map(option));
    } else {
      attributes.type = this.isBoolean ? "checkbox" : "text";
      attributes.inputmode = { integer: "numeric", number: "decimal" }[type];
      const others = { autocomplete: "off", spellcheck: "false", placeholder: this.standard };
      this.input = h("input", { ...attributes, ...others });
    }
    [this.element] = copied("field").children;
    const [label, help, refusal] = this.element.children;
    label.htmlFor = id;
    label.append(...name.split(/(?=_)/).flatMap((part) => [h("wbr"), part]));
    if (isRequired) label.append(h("abbr", { title: "required" }, "*"));
    label.after(this.input);
    help.id = `${id}-help`;
    help.append(parameter.description, h("small", {}, bounds(parameter)));
    refusal.id = `${id}-refusal`;
    [this.detail, this.repair] = refusal.children;
    this.repair.hidden = true;
    this.element.addEventListener("keydown", (event) =>
      this.element.classList.toggle("silent", event.key === "Escape"),
    );
  }

  /** Show the value of the URL, or the default where it has none. */
  show(value) {
    const text = value ?? this.standard;
    this.element.classList.toggle("set", value !== undefined);
    if (this.isBoolean) this.input.checked = text === "true";
    else if (this.input.options) {
      if (![...this.input.options].some((each) => each.value === text))
        this.input.append(h("option", {}, text));
      this.input.value = text;
    } else if (this.read() !== (value ?? "")) this.input.value = value ?? "";
  }

  /** Return the value as the URL has it; nothing where the field is empty. */
  read() {
    return this.isBoolean ? String(this.input.checked) : this.input.value.trim();
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

/** Return the bounds and the default of a parameter as a line of its description. */
function bounds(parameter) {
  const named = ([name]) => (parameter[name] ?? null) !== null;
  return BOUNDS.filter(named)
    .map(([name, text]) => `${text} ${parameter[name]}`)
    .join(", ");
}
