// What a report says of a file: the verdict, what to do, and the evidence.

import { shapeText } from "./arrays.js";
import { code, details, joined, layersText, list, muted, paragraph } from "./given.js";
import { button, copyText, h, real, whole } from "./lib.js";
import { exactText } from "./sources.js";

const VERDICTS = {
  equal: ["good", "Right"],
  part: ["doubt", "Right as far as it goes"],
  packed: ["doubt", "Right numbers, packed otherwise"],
  angles: ["doubt", "Right angles, without cosines and sines"],
  diagnosed: ["bad", "Mistake found"],
  identified: ["good", "Identified", "This is a table of this server."],
  transposed: ["doubt", "Transposed", "This is a table of this server, but transposed."],
  ambiguous: ["doubt", "Ambiguous", "Several tables begin with these numbers."],
  none: ["doubt", "Not explained", "None of the tables that were tried has these numbers."],
  near: ["bad", "Not all right"],
};

/** Findings of this name are places: all other numbers are right, or have the mistakes beside it. */
const PLACE = /^(element|rows|lanes|rows-and-lanes|scattered|numbers|channels|batches)$/;

/** Return the verdict in words, and what to do. */
function verdictOf({ verdict, sentence, mistakes = [], findings = [], wrapper, checked: seen }) {
  const isEqual = verdict === "equal";
  const packed = wrapper?.pack && (wrapper.pack === "angle" ? "angles" : "packed");
  const near = verdict === "none" && PLACE.test(findings[0]?.name) && "near";
  const [kind, text, own] = VERDICTS[(isEqual ? (seen.of && "part") || packed : near) || verdict];
  const keys = (all) => Object.entries(all).map(([name, key]) => `${name}: ${key}`);
  const todo = mistakes.map((each) => [
    paragraph(each.correction),
    each.keys && details("In engines", list("muted", keys(each.keys))),
  ]);
  const heads = [h("b", {}, text), h("h1", {}, sentence ?? own)];
  const notes = isEqual && wrapper?.notes?.map((note) => paragraph(note));
  return h("div", { class: `verdict ${kind}` }, heads, todo, notes);
}

/** Return a call as a link, and to copy. */
function call(name, url) {
  const copy = ({ target }) => copyText(name, new URL(url, location).href, target);
  const link = [h("a", { href: url }, code(url)), button("Copy", copy, "quiet")];
  return h("p", { class: "call" }, h("span", {}, name), link);
}

/** Return a diagnosis: the verdict, what to do, and the evidence. */
export function diagnosis(report) {
  const { verdict, findings = [], alternatives = [], wrapper = {}, groups = [] } = report;
  const { correct, yours, arithmetic, checked: seen, sampled, scores = [] } = report;
  const or = ({ mistakes }) => paragraph(`Or: ${mistakes.map((each) => each.sentence).join(" ")}`);
  const group = (each) =>
    details(joined(...each.arrays, layersText(each.layers ?? [])), diagnosis(each));
  const vs = correct && yours && `${correct.url}#vs=${encodeURIComponent(yours.url)}&show=d`;
  // The sentence of an array without mistakes has that of its first finding.
  const more = findings.map((each, at) => (at || verdict === "diagnosed") && each.sentence);
  const notes = [
    arithmetic && `made in the arithmetic ${arithmetic}`,
    wrapper.pack && `packed as ${wrapper.pack}`,
    ...(wrapper.notes ?? []),
    `${whole(seen.elements)} numbers checked`,
    seen.of && `its ${whole(seen.rows)} rows are the first of ${whole(seen.of)}`,
    sampled && `explanations were looked for in ${sampled.rows} rows: ${sampled.which}`,
    ...scores.map((each) => `${each.agreement} of a score is left at distance ${each.distance}`),
  ];
  return [
    verdictOf(report),
    groups.map(group),
    alternatives.map(or),
    list("", more),
    correct && call("Expected", correct.url),
    yours && call("Yours", yours.url),
    vs && paragraph(h("a", { href: vs }, "Compare the two")),
    details("How it was examined", list("muted", notes)),
  ];
}

/** Return which tables an array may be. */
export function identity({ verdict, hypotheses, nearest, notes }) {
  const about = ({ arithmetic: [first = {}] = [], support }) =>
    muted(joined(first.description, ...support));
  const each = (name) => (found) => [call(name, found.url), about(found)];
  const others = hypotheses.slice(1);
  const near = nearest && `${real(100 * nearest.agreeing, 7)} % of the numbers agree with it.`;
  return [
    verdictOf({ verdict: hypotheses[0]?.transposed ? "transposed" : verdict }),
    hypotheses.slice(0, 1).map(each("Table")),
    others.length > 0 && details(`Other names: ${others.length}`, others.map(each("Also"))),
    near && [each("Nearest")(nearest), paragraph(near)],
    list("muted", notes),
  ];
}

export const sizeText = ({ shape, dtype }) => `${shapeText(shape)} ${dtype}`;

/** Return a place along an axis in words, without what the axis is made of. */
export const placeIn = (axis, number) => `${axis.split("(")[0]} ${whole(number)}`;

/** Return where an array leaves its table, whose axes have these names. */
export function evidence({ good_to: good, largest, array, axes }, first, names, columns) {
  const { yours, theirs } = array;
  const place = ({ index, position, channel }) => {
    const labels = { [axes.position]: position, ...(axes.channel && { [axes.channel]: channel }) };
    // An index into other axes, as of one more of length 1, has no names.
    const own = index.length === names.length ? names : Object.keys(labels);
    const across = index[own.indexOf(columns.axis)];
    if (across !== undefined) labels[columns.axis] ??= columns.at(BigInt(across));
    return own.map((name, at) => placeIn(name, labels[name] ?? index[at])).join(", ");
  };
  const text = (value, { dtype }) => exactText(Number(value), dtype);
  const most = largest.absolute;
  const from =
    good === null ? "Wrong from the start" : `Right up to ${placeIn(axes.position, good)}`;
  const both = first && `${text(first.yours, yours)} in place of ${text(first.theirs, theirs)}`;
  return list("evidence", [
    first && `${from}; at ${place(first)}: ${both}.`,
    most?.error > 0 && `The largest difference is ${real(most.error, 7)}, at ${place(most)}.`,
    theirs.dtype !== yours.dtype && `The table is ${sizeText(theirs)}.`,
  ]);
}
