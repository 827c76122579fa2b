// What every module of the page uses: elements, requests and the text of numbers.

/** The problem document of a refused request, as an error. */
export class Problem extends Error {
  /** Make one of a status, 504 of half an answer, 0 of nothing sent; {title?, detail?, errors?}. */
  constructor(status, document) {
    super(document.detail ?? document.title ?? `status ${status}`);
    this.status = status;
    this.title = document.title ?? "No answer";
    this.errors = [document.errors ?? []].flat();
  }
}

/** Return what makes elements: functions are listeners, true is an empty attribute; no text is HTML. */
const maker =
  (namespace) =>
  (tag, props = {}, ...children) => {
    const element = document.createElementNS(namespace, tag);
    for (const [name, value] of Object.entries(props)) {
      if (typeof value === "function") element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false)
        element.setAttribute(name, value === true ? "" : value);
    }
    return fill(element, children);
  };

export const h = maker("http://www.w3.org/1999/xhtml");
export const svg = maker("http://www.w3.org/2000/svg");

/** Put children into an element, as `h` does, in place of those that it has. */
export function fill(element, ...children) {
  const there = children.flat(Infinity).filter((each) => (each ?? false) !== false);
  element.replaceChildren(...there);
  return element;
}

/** Return a button of one of the kinds of style. */
export const button = (text, onclick, kind = "outlined") =>
  h("button", { type: "button", class: kind, onclick }, text);

/** Return what a template of the page holds. */
export function copied(id) {
  return document.getElementById(id).content.cloneNode(true);
}

/** Return the elements of a copy of a template, or of a node, with a data-name, by that name. */
export function partsOf(of) {
  const node = typeof of === "string" ? copied(of) : of;
  const all = [...node.querySelectorAll("[data-name]")];
  return Object.fromEntries(all.map((each) => [each.dataset.name, each]));
}

/** Say something to those who do not see the page. */
export function announce(text) {
  document.getElementById("told").textContent = text;
}

/** Return what an error says: faults, links to repaired requests, a button for another try. */
export function fault({ title, message, status, errors = [] }, again) {
  const open = (url) => url && h("p", {}, h("a", { href: url }, "Open ", h("code", {}, url)));
  const own = (text) => text?.replace(/^\w+ names no table: /, "").replace(/^the body/, "this");
  const said = ({ detail, pointer, url, suggestion }) => [
    h("p", {}, pointer && [h("code", {}, pointer), " "], own(detail)),
    open(url ?? (suggestion?.startsWith("/") && suggestion)),
  ];
  const faults = (errors.length ? errors : [{ detail: message }]).map(said);
  const retry =
    again &&
    /401|429|5../.test(status) &&
    button(status === 401 ? "Give the key" : "Try again", again);
  const rest = title ? retry : button("Reload the page", () => location.reload());
  const head = h("h1", {}, title ?? "The page failed");
  return h("div", { class: "fault", role: "alert" }, head, faults, rest);
}

/** Open the dialog of a template under a title, and return its parts; closed, it is gone. */
function openDialog(id, title) {
  const parts = partsOf(id);
  parts.title.textContent = title;
  parts.dialog.addEventListener("close", () => parts.dialog.remove());
  document.body.append(parts.dialog);
  parts.dialog.showModal();
  return parts;
}

/** Copy a text and mark its button; without a clipboard, open a dialog with the text. */
export async function copyText(name, text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const { area } = openDialog("text", name);
    area.value = text;
    area.select();
    return;
  }
  announce(`${name} copied.`);
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), 1500);
}

/** Save a file. */
export function saveAs(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  announce(`${name} is saved.`);
}

export let key = "";
let asking = null;

/** Save the file of a link, which sends no key; throws Problem where its length is more than 268 MB. */
export async function save({ href, pathname }) {
  const response = await request(href);
  if (Number(response.headers.get("Content-Length")) <= 2 ** 28)
    return saveAs(pathname.split("/").at(-1), await response.blob());
  response.body.cancel();
  const detail = `curl --remote-name --header "Authorization: Bearer $POSREF_API_KEY" "${href}"`;
  throw new Problem(0, { title: "Too large for the page: fetch it otherwise", detail });
}

/** Ask a person for the key of the server, which is kept in memory alone. */
function askForKey() {
  const title = key ? "This key is not known" : "This server asks for a key";
  const { dialog, given } = openDialog("key", title);
  return new Promise((resolve, reject) => {
    dialog.addEventListener("close", () => {
      asking = null;
      key = given.value.trim();
      const document = { title: "No key", detail: "This server answers with a key only." };
      if (dialog.returnValue) resolve();
      else reject(new Problem(401, document));
    });
  });
}

/** Return the response to a request with status 2xx; throws Problem for any other. */
export async function request(url, options = {}) {
  const headers = { Accept: "application/json", ...options.headers };
  const used = key;
  if (key) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(url, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(504, { detail: "The server does not answer. Is it still running?" });
  }
  if (response.status === 401) {
    if (used === key) await (asking ??= askForKey());
    return request(url, options);
  }
  if (response.ok) return response;
  // A proxy between may answer with a page.
  throw new Problem(response.status, await response.json().catch(() => ({})));
}

/** Return the error of an answer that is not what was requested. */
export function cutOff() {
  const detail = "It is shorter than the answer that was requested, or another one.";
  return new Problem(504, { title: "The answer is cut off", detail });
}

/** Return the JSON of a GET, or of another request; throws Problem where it has no field `has`. */
export async function json(url, options, has) {
  const response = await request(url, options);
  const answer = await response.json().catch((error) => {
    if (error.name === "AbortError") throw error;
  });
  const part = has ? answer?.[has] : answer;
  if (part && typeof part === "object") return answer;
  throw cutOff();
}

/** Return the frequencies at a URL and what is beside them: lists by name; throws Problem. */
export async function frequenciesAt(url, options) {
  const { data } = await json(url, options, "data");
  const { frequency, inv_freq: radians = frequency, wavelength } = data;
  const isNumber = (each) => each === null || Number.isFinite(each);
  const areNumbers = [radians, wavelength].every((all) => all?.length && all.every?.(isNumber));
  // JSON has no infinity, the wavelength of what does not turn.
  if (areNumbers && radians.length === wavelength.length)
    return { ...data, radians, wavelength: wavelength.map((each) => each ?? Infinity) };
  throw cutOff();
}

/** Return what calls an async function once, and once more after each failure. */
export function once(make) {
  let made = null;
  return () => {
    if (!made) (made = make()).catch(() => (made = null));
    return made;
  };
}

/** Return a text as a URL of this server; throws Problem. */
export function ownUrl(text) {
  const url = URL.parse(text, location);
  if (url?.origin === location.origin) return url;
  throw new Problem(0, { title: "This is no URL of this server", detail: text });
}

/** Return the whole number below a limit that a text is, as BigInt; of any other text a default. */
export function wholeBelow(limit, text, otherwise = 0n) {
  return /^\d{1,19}$/.test(text) && BigInt(text) < limit ? BigInt(text) : otherwise;
}

const THIN = "\u2009";
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** Return 10^n or 2^n as text with the exponent raised. */
export function power(base, exponent) {
  return base + String(exponent).replace(/./g, (each) => SUPERSCRIPTS[each] ?? "⁻");
}

/** Return a whole number (number or BigInt) with thin spaces between thousands. */
export function whole(value) {
  const text = String(value);
  return text.replace(/\B(?=(\d{3})+$)/g, THIN).replace("-", "−");
}

/** Return a length: 2⁵³ for large powers of two, else its digits. */
export function count(value) {
  const number = BigInt(value);
  const bits = number.toString(2);
  const isPower = bits.length > 24 && !bits.slice(1).includes("1");
  return isPower ? power(2, bits.length - 1) : whole(number);
}

/** Return a real number with so many significant digits, without trailing zeros. */
export function real(value, digits = 4) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  const text = String(Number(value.toPrecision(digits)));
  return /\D/.test(text.slice(1)) ? text.replaceAll("-", "−") : whole(text);
}

const UNITS = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"];

/** Return a whole number of bytes with its unit. */
export function bytes(value) {
  const unit = Math.floor((String(BigInt(value)).length - 1) / 3);
  return `${real(Number(value) / 1000 ** unit, 3)} ${UNITS[unit]}`;
}
