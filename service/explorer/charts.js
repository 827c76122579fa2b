// Charts in SVG: curves on the axis of the map, wavelengths on a log axis, a pair as a vector.

import { partsOf, power, real, svg, whole } from "./lib.js";

/** Labels at the left of maps and curves take so many pixels. */
const GUTTER = 41;
const LONG = 10n ** 7n;

/** Return the step of 1, 2 or 5 times a power of 10 that is no smaller than a number. */
function niceStep(number) {
  const ten = 10 ** Math.floor(Math.log10(number));
  return Math.max(1, [1, 2, 5, 10].find((each) => each * ten >= number * 0.999) * ten);
}

/** Return the text of a label: long ones are once in full, then as what is added to the first. */
function labelText(label, step, first) {
  if (typeof label !== "bigint") return label;
  if (label < LONG && label > -LONG) return whole(label);
  if (step < 1e6) return label === first ? whole(label) : `+${whole(label - first)}`;
  const ten = Math.floor(Math.log10(step));
  const factor = label / 10n ** BigInt(ten);
  return `${factor === 1n ? "" : `${factor}·`}${power(10, ten)}`;
}

/** Return about so many ticks of an axis: the fraction where each is, its text and label. */
export function axisTicks(axis, most) {
  const { labels } = axis;
  const size = BigInt(niceStep(axis.span / Math.max(most, 1.5)));
  const by = labels.isEven ? labels.runs[0].step : 1n;
  const start = labels.isEven ? labels.at(axis.base) : axis.base;
  const step = size * (by < 0n ? -by : by);
  const ticks = [];
  const rest = ((start % step) + step) % step;
  for (let label = by < 0n ? start - rest : start + ((step - rest) % step); ; label += size * by) {
    const cells = Number(label - start) / Number(by);
    const fraction = (cells + 0.5 - axis.offset) / axis.span;
    if (fraction > 1 || cells >= Number(axis.count - axis.base)) return ticks;
    const value = labels.isEven ? label : labels.at(label);
    const text = labelText(value, Number(step), ticks[0]?.value ?? value);
    if (fraction >= 0) ticks.push({ fraction, text, value });
  }
}

/** Return at most so many powers of ten between two numbers, as [number, text]. */
function decades(low, high, most) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const step = Math.max(1, Math.ceil((last - first + 1) / most));
  const text = (ten) => (ten >= 0 && ten <= 2 ? String(10 ** ten) : power(10, ten));
  const tens = [];
  for (let ten = last; ten >= first; ten -= step) tens.push([10 ** ten, text(ten)]);
  return tens;
}

/** Return a number of a scale in little room. */
function short(value) {
  const ten = Math.floor(Math.log10(Math.abs(value)));
  const isPlain = value === 0 || (ten > -4 && ten < 5);
  return isPlain ? real(value, 3) : `${real(value / 10 ** ten, 2)}·${power(10, ten)}`;
}

/** Return the path through points; where one has no number, the line is interrupted. */
function path(points) {
  const isOn = (at) => Number.isFinite(points[at]?.[1]);
  const place = ([x, y], at) => (isOn(at) ? `${x.toFixed(1)} ${y.toFixed(1)}` : "");
  const to = (text, at) => text && (isOn(at - 1) ? `L${text}` : `M${text}h0`);
  return points.map(place).map(to).join("");
}

export const line = (name, d) => svg("path", { class: name, d });
const label = (text, x, y, anchor = "middle") =>
  svg("text", { x, y, dy: "0.35em", "text-anchor": anchor }, text);

/** Return the lines and labels of a chart: of rows `[y, text]`, and of columns `[x, text]`. */
function frame([left, right, bottom], rows, columns) {
  const across = rows.map(([y, text]) => [
    line("grid", `M${left} ${y.toFixed(1)}H${right}`),
    label(text, left - 8, y, "end"),
  ]);
  const below = columns.map(([x, text]) => {
    const half = text.length * 3.4;
    const at = Math.min(Math.max(x, left + half - 6), right - half + 6);
    return [line("tick", `M${x.toFixed(1)} ${bottom + 3}v5`), label(text, at, bottom + 17)];
  });
  return [...across, ...below].flat();
}

/** Draw series `{points: [fraction, number][], series}` on an axis of the map, between two numbers. */
export function drawCurves(element, { axis, series, low, high, isLog = false }) {
  const width = element.clientWidth - GUTTER;
  const height = element.clientHeight - 30;
  const scaled = (value) => (isLog ? Math.log10(Math.max(value, low)) : value);
  const [bottom, top] = [scaled(low), scaled(high)];
  const y = (value) => 6 + (height - 6) * (1 - (scaled(value) - bottom) / (top - bottom || 1));
  const x = (fraction) => GUTTER + fraction * width;
  const even = [high, (low + high) / 2, low].map((value) => [value, short(value)]);
  const rows = (isLog ? decades(low, high, 4) : even).map(([value, text]) => [y(value), text]);
  const ticks = axisTicks(axis, width / 110);
  const columns = ticks.map(({ fraction, text }) => [x(fraction), text]);
  const curves = series.map(({ points, series: style }) => {
    const places = points.map(([at, value]) => [x(at), y(value)]);
    return line(`series series-${style}`, path(places));
  });
  const at = axis.fraction();
  const hair = at >= 0 && at <= 1 ? [line("marker", `M${x(at).toFixed(1)} 0v${height}`)] : [];
  const parts = frame([GUTTER, GUTTER + width, height], rows, columns);
  element.replaceChildren(...parts, ...curves.reverse(), ...hair);
}

/** Return a log chart by pair: series {values, series?, axes?}, lines {value, text}, a marker. */
export function logChart({ series, lines = [], marker, width, height, ...names }) {
  const shown = lines.filter(({ value }) => value > 0);
  const all = [...series.flatMap((each) => [...each.values]), ...shown.map(({ value }) => value)];
  const tens = all.filter((value) => value > 0 && value < 1e300).map(Math.log10);
  const [bottom, top] = [Math.floor(Math.min(...tens)), Math.ceil(Math.max(...tens))];
  const [left, right, base] = [38, width - 6, height - 38];
  const longest = Math.max(2, ...series.map((each) => each.values.length));
  const x = (pair) => left + ((right - left) * pair) / (longest - 1);
  const y = (value) => base - ((base - 8) * (Math.log10(value) - bottom)) / (top - bottom || 1);
  const rows = decades(10 ** bottom, 10 ** top, 6).map(([value, text]) => [y(value), text]);
  const step = niceStep(longest / (width / 70));
  const tick = (_, at) => [x(at * step), whole(at * step)];
  const columns = Array.from({ length: Math.ceil(longest / step) }, tick);
  const across = shown.flatMap(({ value, text }, at) => {
    const [edge, anchor] = at % 2 ? [right, "end"] : [left + 4, "start"];
    const name = label(text, edge, Math.max(y(value) - 8, 8), anchor);
    return [line("marker", `M${left} ${y(value).toFixed(1)}H${right}`), name];
  });
  const curves = series.flatMap(({ values, series: style, axes = [] }) => {
    const places = Array.from(values, (value, pair) => [x(pair), value > 0 ? y(value) : NaN]);
    const own = (axis) => places.filter((_, pair) => axes[pair] === axis);
    return [...new Set(axes.length ? axes : [undefined])].map((axis, at) =>
      line(`series series-${style ?? at}`, path(own(axis))),
    );
  });
  const hair = marker === undefined ? [] : [line("marker", `M${x(marker).toFixed(1)} 4V${base}`)];
  const name = label(`${names.axis ?? "pair"} →`, right, base + 31, "end");
  const parts = [frame([left, right, base], rows, columns), curves.reverse(), hair, across, name];
  const about = { class: "chart", role: "img", "aria-label": names.label };
  return svg("svg", { ...about, width, height }, parts);
}

/** A pair as the vector (cosine, sine), as the server sent them, and the position as a slider. */
export class Dial {
  /** Make a dial; `slid` gets where in the window the slider is, from 0 to 1. */
  constructor(slid) {
    Object.assign(this, partsOf("dial"));
    this.slider.oninput = () => slid(Number(this.slider.value) / Number(this.slider.max));
  }

  /** Show a pair at a position: one or two vectors `{cosine, sine}`, none while they are fetched. */
  show({ pair, position, fraction, steps, radius, vectors, ...words }) {
    const { axes = ["cos", "sin"], names = ["A", "B"] } = words;
    this.title.textContent = `Pair ${pair}`;
    [this.x.textContent, this.y.textContent] = axes;
    this.slider.max = String(steps);
    this.slider.value = String(Math.round(fraction * steps));
    this.slider.ariaValueText = `position ${position}`;
    this.element.classList.toggle("late", !vectors.length);
    if (!vectors.length) return;
    const sizes = vectors.map(({ cosine, sine }) => Math.hypot(cosine, sine));
    const scale = 66 / (Math.max(radius, ...sizes) || 1);
    const turn = (degrees) => ((degrees % 360) + 360) % 360;
    const [first, second] = vectors.map(({ cosine, sine }) =>
      turn((Math.atan2(sine, cosine) * 180) / Math.PI),
    );
    const apart = 180 - Math.abs(turn(first - second) - 180);
    const [text, other, between] = [first, second, apart].map((each) => `${each?.toFixed(2)}°`);
    this.angle.textContent = vectors[1]
      ? `${names[0]} ${text} · ${names[1]} ${other} · ${between} apart`
      : text;
    this.svg.ariaLabel = `Pair ${pair} at position ${position}: ${this.angle.textContent}`;
    this.circle.setAttribute("r", radius * scale);
    const arms = vectors.map(({ cosine, sine }, at) => {
      const [x, y, kind] = [cosine * scale, -sine * scale, at ? " other" : ""];
      const own = at ? [] : [line("cosine", `M0 0H${x}`), line("sine", `M${x} 0V${y}`)];
      const tip = svg("circle", { class: `tip${kind}`, cx: x, cy: y, r: 4 });
      return [...own, line(`vector${kind}`, `M0 0L${x} ${y}`), tip];
    });
    this.arms.replaceChildren(...arms.reverse().flat());
  }
}
