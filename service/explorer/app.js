// The page: its state (URL and fragment), the views, and the request bar.

import { EncodingPanel } from "./catalogue.js";
import { Problem, announce, copied, cutOff, fault, json, key, once, ownUrl } from "./lib.js";
import { partsOf, save } from "./lib.js";

const HOME =
  "/rope?head_dim=128&seq_len=131072&rope_theta=500000&rope_type=llama3&factor=32" +
  "&low_freq_factor=1&high_freq_factor=4&original_max_position_embeddings=8192&pack=concat";
const VIEWS = ["Table", "Compare", "Model", "File", "Learn", "Post"];
const EXTENSION = /\.(json|bin|npy|safetensors|csv|png)$/;
const WRITE_AFTER = 120;
const NO_DOCS = "A browser sends no key with an address such as this. What /docs shows is in:";

/** Return the place of an address: a table or another view, and how it is looked at; no host. */
function placeOf(address) {
  const view = new URLSearchParams(address.hash.slice(1));
  const isHome = address.pathname === "/";
  const { pathname, search } = isHome ? new URL(HOME, address) : address;
  const own = pathname.replace(/^\/+/, "/").replace(/%[4-7][\da-f]/gi, decodeURIComponent);
  const name = VIEWS.find((each) => each.toLowerCase() === view.get("view"));
  const kind = name ?? (view.has("vs") ? "Compare" : "Table");
  const isTable = kind === "Table" || kind === "Compare";
  const [path, query] = isTable ? [own, search.slice(1)] : [`/${view.get("entry") ?? ""}`, ""];
  return { path, query, url: own + search, view, kind, isHome, isTable };
}

/** Return the catalogue; throws Problem where one of its entries is not whole. */
async function wholeCatalogue() {
  const catalogue = await json("/catalogue", {}, "entries");
  const { groups, parameters, entries } = catalogue;
  const isWhole = (each) =>
    each?.path &&
    each.required &&
    each.fixed &&
    each.parameters?.every?.((key) => parameters?.[key]);
  if (groups?.length && entries.length && entries.every?.(isWhole)) return catalogue;
  throw cutOff();
}

/** Return the fragment that compares a table with another: looked at as now, if it is on the page. */
function against(vs, { isTable, view }) {
  return new URLSearchParams({ ...(isTable && Object.fromEntries(view)), vs, show: "d" });
}

class Page {
  constructor() {
    const frame = copied("frame");
    Object.assign(this, partsOf(frame));
    this.written = document.querySelector(".readable");
    this.answer = JSON.parse(document.getElementById("answer").textContent);
    this.catalogue = once(wholeCatalogue);
    this.place = placeOf(location);
    this.answered = this.place.url;
    this.views = {};
    this.panel = new EncodingPanel(this, this.encoding);
    this.skip.onclick = () => document.getElementById("page").focus();
    this.bar.onsubmit = async () =>
      this.open(this.typed(), this.place.view.has("vs") ? this.place.view : "");
    this.other.onclick = () => this.compare();
    document.getElementById("page").replaceWith(frame);
    addEventListener("popstate", () => this.render());
    addEventListener("beforeprint", () => (this.address.textContent = location.href));
    addEventListener("unhandledrejection", (event) => this.fail(event.reason, event));
    document.addEventListener("click", (event) => this.follow(event));
    document.addEventListener("submit", (event) => {
      if (event.target.method !== "dialog") event.preventDefault();
    });
  }

  /** Return what stands in the request bar as path and query of this server; throws Problem. */
  typed() {
    const value = this.request.value.trim().replace(/^GET\s+/i, "");
    const [, url = value] = /curl .*?((https?:|localhost|[\w.-]+:\d)[^'"\s]+)/.exec(value) ?? [];
    const text = url.replace(/^(localhost|[\w.-]+(?=:\d))(:\d+)?(?=\/)/, "");
    const own = URL.parse(/^\/|:\/\//.test(text) ? text : `/${text}`, location) ?? ownUrl(text);
    return own.pathname.replace(EXTENSION, "") + own.search;
  }

  /** Return the fragment of the table alone, looked at as now. */
  alone() {
    const view = new URLSearchParams(this.place.isTable ? this.place.view : "");
    for (const name of ["vs", "show", "view"]) view.delete(name);
    return String(view);
  }

  /** Compare the table with the one in the request bar; or keep it as B, and change A. */
  async compare() {
    const other = this.typed();
    if (other === this.place.url) announce("Kept as B. Change a parameter: A changes.");
    this.open(this.place.url, against(other, this.place));
  }

  /** Open a table or view: a step that Back undoes, one for all changes of a field. */
  async open(url, fragment = "", field = null) {
    this.write();
    const target = ownUrl(url);
    if (String(fragment)) target.hash = fragment;
    const isSame = target.href === location.href || (field && field === history.state);
    history[isSame ? "replaceState" : "pushState"](field, "", target);
    return this.render();
  }

  /** Change how the table is looked at: names and values for the fragment; null removes one. */
  look(changes) {
    for (const [name, value] of Object.entries(changes)) {
      if ((value ?? null) === null) this.place.view.delete(name);
      else this.place.view.set(name, value);
    }
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.write(), WRITE_AFTER);
  }

  /** Write into the address now what `look` changed. */
  write() {
    if (!this.writing) return;
    clearTimeout(this.writing);
    this.writing = null;
    const address = new URL(location);
    address.hash = this.place.view.toString().replaceAll("%2C", ",");
    history.replaceState(history.state, "", address);
    this.mark();
  }

  /** Return the description of a table; that of the first one came with the page. */
  async describe(url) {
    const { describe, problem } = url === this.answered ? this.answer : {};
    if (problem && !/401|429|5../.test(problem.status)) throw new Problem(problem.status, problem);
    return describe ?? json(`/describe?url=${encodeURIComponent(url)}`, {}, "view");
  }

  async render() {
    const place = (this.place = placeOf(location));
    this.bar.hidden = !place.isTable;
    this.aside.hidden = !place.isTable && place.kind !== "Post";
    this.request.value = place.url;
    this.faults.replaceChildren();
    this.mark();
    this.panel.show(place);
    try {
      const module = await import(`./${place.kind.toLowerCase()}.js`);
      if (place !== this.place) return;
      const view = (this.views[place.kind] ??= new module[`${place.kind}View`](this));
      if (this.view !== view) this.view?.close?.();
      this.view = view;
      // Put in again, it would lose the focus.
      if (this.stage.firstChild !== view.element) this.stage.replaceChildren(view.element);
      await view.show?.(place);
    } catch (error) {
      if (place === this.place && error.name !== "AbortError") this.refuse(error);
    }
  }

  /** Set the title of the page and its links to the place. */
  mark() {
    const { kind, isHome, isTable, url, view } = this.place;
    const table = isHome ? "/" : url;
    const other = view.get("vs") ?? (isHome ? url.replace("factor=32", "factor=8") : url);
    const [toTable, toComparison] = this.links.children;
    toTable.href = [table, this.alone()].filter(Boolean).join("#");
    toComparison.href = `${table}#${against(other, this.place)}`;
    for (const link of this.links.children)
      link.ariaCurrent = link.textContent === kind ? "page" : null;
    this.tagline.hidden = !isHome || kind !== "Table";
    const subject = this.tagline.hidden ? isTable && url : "Exact positional encodings";
    document.title = `${subject || kind} · posref`;
  }

  /** Show what went wrong above the view. */
  fail(error, event) {
    if (error instanceof Problem) event?.preventDefault();
    this.faults.replaceChildren(fault(error, () => this.render()));
  }

  /** Show what went wrong in the place of a table and at its fields; of a POST, its page. */
  refuse(error) {
    const isDocs = key && this.place.path === "/docs";
    if (isDocs) [error.title, error.errors] = ["API", [{ detail: NO_DOCS, url: "/openapi.json" }]];
    if (isDocs || error.status === 405) this.bar.hidden = this.aside.hidden = true;
    if (error.status === 405) return this.stage.replaceChildren(this.written);
    this.fail(error);
    if (!this.place.isTable || error.isOfOther) return;
    this.stage.replaceChildren(isDocs ? "" : copied("empty"));
    this.place.faults = error.errors ?? [];
    this.panel.form.refuse(this.place.faults);
  }

  /** Follow a link to a table without loading the page anew: a key in memory stays. */
  follow(event) {
    const link = event.target.closest?.("a[href]");
    const isOther = event.button || event.metaKey || event.ctrlKey || event.shiftKey;
    if (!link || isOther || event.defaultPrevented || link.target || link.download) return;
    const isKept = ["/", key && "/docs"].includes(link.pathname);
    const isTable = ({ method, path }) => method === "GET" && path === link.pathname;
    const isPage = isKept || this.panel.catalogue?.entries.some(isTable);
    const isFile = key && EXTENSION.test(link.pathname);
    if (link.origin !== location.origin || !(isPage || isFile)) return;
    event.preventDefault();
    this.write();
    return isFile ? save(link) : this.open(link.href);
  }
}

new Page().render();
