// The colour of a number: a perceptually uniform map for light and dark pages, and a palette.

/** How many steps the maps have; the last colour of a table of colours is the neutral one. */
const STEPS = 511;

const ABOVE = 255;
const BELOW = 32;
const PALETTE = 60;
/** Masks are written as −inf, NaN or the lowest finite number: from here on a number is a mask. */
const MASK = 1e30;

/** Where the page is dark; a change of that is an event of it. */
export const DARK = matchMedia("(prefers-color-scheme: dark)");

/** Return [red, green, blue] from 0 to 255 of an OKLCH colour, its hue in degrees. */
function rgb(lightness, chroma, hue) {
  // Not by a canvas: browsers that hide who one is add noise to what is read of it.
  const { style } = document.head;
  style.color = `color(from oklch(${lightness} ${chroma} ${hue}) srgb r g b)`;
  const parts = getComputedStyle(document.head).color.match(/-?[\d.]+(e-?\d+)?/g);
  return parts.map((part) => Math.round(255 * Math.min(Math.max(part, 0), 1)));
}

/** What returns the colour of t from 0 to 1, or of an index, by kind of scale. */
const KINDS = {
  // Neutral in the middle, blue above, red below.
  signed(t, dark) {
    const size = Math.abs(2 * t - 1);
    const lightness = dark ? 0.19 + 0.61 * size : 0.975 - 0.575 * size;
    return rgb(lightness, 0.155 * Math.min(1, 1.25 * size), t < 0.5 ? BELOW : ABOVE);
  },
  // For tables with one sign: from pale green to deep blue.
  ramp(t, dark) {
    const lightness = dark ? 0.24 + 0.66 * t : 0.955 - 0.635 * t;
    return rgb(lightness, 0.03 + 0.11 * Math.sin(Math.PI * (0.15 + 0.7 * t)), 165 + 110 * t);
  },
  // Neighbours differ in hue and in lightness.
  index(index, dark) {
    // By the golden angle, hues of indices 8, 13, 21 and 34 apart are near: no multiples of 5.
    const lightness = (dark ? 0.46 : 0.5) + 0.09 * ((2 * index) % 5);
    return rgb(lightness, 0.12, ABOVE + 137.508 * index);
  },
};

const palettes = {};

/** Return the colours of a kind of scale, as [red, green, blue] and as pixels; the last is neutral. */
function palette(kind, dark) {
  const place = (step) => (kind === "index" ? step % PALETTE : step / (STEPS - 1));
  const colour = (_, step) => KINDS[kind](place(step), dark);
  const neutral = dark ? [58, 61, 66] : [214, 216, 219];
  const colours = [...Array.from({ length: STEPS }, colour), neutral];
  // A pixel of ImageData as one number, on the little-endian machines that browsers run on.
  const pixel = ([red, green, blue]) => (255 << 24) | (blue << 16) | (green << 8) | red;
  return { colours, pixels: Int32Array.from(colours, pixel) };
}

/** The scale of a heat map: which number has which colour. */
export class Scale {
  /** Make a "signed", "ramp" or "index" scale from the number of the first colour to the last's. */
  constructor(kind, low, high) {
    const { matches: dark } = DARK;
    Object.assign(this, { kind, low, high, dark }, (palettes[kind + dark] ??= palette(kind, dark)));
  }

  /** Return which of the colours a number has. */
  step(value) {
    if (isMasked(value)) return STEPS;
    if (this.kind === "index") return value < 0 || value % 1 ? STEPS : value % PALETTE;
    const t = this.high === this.low ? 0.5 : (value - this.low) / (this.high - this.low);
    return Math.round((STEPS - 1) * Math.min(Math.max(t, 0), 1));
  }

  /** Paint numbers of a matrix as an image; `isUpright` puts its rows along x. */
  paint(numbers, rows, columns, isUpright) {
    const [width, height] = isUpright ? [rows, columns] : [columns, rows];
    const image = new ImageData(width, height);
    const pixels = new Int32Array(image.data.buffer);
    for (let row = 0, at = 0; row < rows; row += 1)
      for (let column = 0; column < columns; column += 1, at += 1)
        pixels[isUpright ? column * width + row : at] = this.pixels[this.step(numbers[at])];
    const canvas = new OffscreenCanvas(width, height);
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }
}

/** Return true for what marks a place as masked or empty. */
export function isMasked(value) {
  return !(Math.abs(value) < MASK);
}
