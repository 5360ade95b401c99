// Small helpers: elements with text (never markup), canvases at the screen's resolution, colours of the theme.

type Attributes = Record<string, string | number | boolean>;

export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}

export function svg(tag: string, attributes: Attributes = {}, ...children: (Node | string)[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

export function byId<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found as T;
}

/** Colour of the theme by the name of its variable. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Sizes a canvas for the screen and gives its context in CSS pixels. */
export function canvasOf(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context?.scale(ratio, ratio);
  return context;
}

type Rgb = [number, number, number];

function rgb(hex: string): Rgb {
  const value = parseInt(hex.replace("#", ""), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** A colour between two of the form `#rrggbb`. */
export function between(low: string, high: string, at: number): string {
  const a = rgb(low);
  const b = rgb(high);
  return `rgb(${a.map((v, i) => Math.round(v + (b[i]! - v) * at)).join(",")})`;
}

const painters: (() => void)[] = [];

/** Paints now, and again when the theme or the width changes. */
export function painted(paint: () => void): void {
  painters.push(paint);
  paint();
}

export function repaint(): void {
  for (const paint of painters) paint();
}

export function textWidth(context: CanvasRenderingContext2D, text: string, most: number): string {
  if (context.measureText(text).width <= most) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > most) end--;
  return `${text.slice(0, end)}…`;
}
