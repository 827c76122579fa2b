// What every module of the page uses: elements, requests and the text of numbers.

/** The problem document of a refused request, as an error. */
export class Problem extends Error {
  /**
   * @param {number} status the status of the response; 0 where there was none
   * @param {{title?: string, detail?: string, errors?: object[]}} document
   */
  constructor(status, document) {
    super(document.detail ?? document.title ?? `status ${status}`);
    this.status = status;
    this.title = document.title ?? "No answer";
    this.errors = document.errors ?? [];
  }
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * Return an element with properties and children; text is never parsed as HTML.
 *
 * A property that is a function is a listener (`onclick`), `class` and other attributes are set by
 * name, true is an empty attribute; null, undefined and false are left out, also of children.
 */
export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** Return an SVG element, as `h` does. */
export function svg(tag, props = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((each) => (each ?? false) !== false));
  return element;
}

/** Return what a template of the page holds. */
export function copied(id) {
  return document.getElementById(id).content.cloneNode(true);
}

/** Open a dialog with a title; it is gone from the page when it closes. */
export function openDialog(title, ...children) {
  const heading = h("h2", { id: "dialog-title" }, title);
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, heading, children);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Put a text into the clipboard, and return true; where that is refused, show it to be copied. */
export async function copyText(name, text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    showText(name, text);
    return false;
  }
}

/** Show a text in a dialog, selected. */
export function showText(name, text) {
  const area = h("textarea", { readonly: true, rows: "14", "aria-label": name }, text);
  const close = h("button", { class: "primary" }, "Close");
  openDialog(name, area, h("form", { method: "dialog", class: "buttons" }, close));
  area.select();
}

let key = "";
let asked = null;

/**
 * Set what asks a person for an API key: an async function of no arguments. The key is kept in
 * memory alone.
 */
export function askForKeyBy(ask) {
  asked = async () => {
    key = await ask();
  };
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
    throw new Problem(0, { detail: "The server does not answer. Is it still running?" });
  }
  if (response.status === 401 && asked) {
    if (used === key) await asked();
    return request(url, options);
  }
  if (response.ok) return response;
  const text = await response.text();
  let problem = { detail: text.slice(0, 200) };
  try {
    problem = JSON.parse(text);
  } catch {
    // A proxy between may answer with a page.
  }
  throw new Problem(response.status, problem);
}

/** Return the JSON of a GET, or of another request. */
export async function json(url, options) {
  return (await request(url, options)).json();
}

const THIN = "\u2009";
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** Return 10^n or 2^n as text with the exponent raised. */
export function power(base, exponent) {
  const digits = [...String(exponent)].map((each) => SUPERSCRIPTS[each] ?? "⁻");
  return base + digits.join("");
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
  return String(Number(value.toPrecision(digits))).replace("-", "−");
}

/** Return a number of bytes with its unit. */
export function bytes(value) {
  const units = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"];
  let number = Number(value);
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) {
    number /= 1000;
    unit += 1;
  }
  return `${unit ? real(number, 3) : number} ${units[unit]}`;
}
