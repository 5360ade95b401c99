// Training metrics against steps: a line for each rank or a spread over many, abnormal points as numbered marks that are listed below.

import uPlot from "uplot";

import { data, say, type Plot, type PlotCourse } from "./data";
import { byId, colour, make, painted } from "./dom";

const HEIGHT = 170;
const COLOURS = 8;
/** Of the first steps of a run, which are slow and whose loss is high, so many parts in a hundred do not set the scale. */
const LEAD = 3;

function nameOf(course: PlotCourse): string {
  const parts: string[] = [];
  if (course.rank !== null) parts.push(say("rank", { n: course.rank }));
  if (course.host !== null) parts.push(course.host);
  if (course.device !== "") parts.push(say("gpu", { n: course.device }));
  if (course.file !== "" && course.rank === null && course.device === "") parts.push(course.file);
  if (course.attempt > 1) parts.push(say("start", { n: course.attempt }));
  return parts.length === 0 ? say("course") : parts.join(" · ");
}

/** Lines of one rank have one colour, whichever start of the run they are of. */
function shades(plot: Plot): number[] {
  const known = new Map<string, number>();
  return plot.lines.map(([course]) => {
    const key = JSON.stringify([course.rank, course.device, course.host, course.file]);
    if (!known.has(key)) known.set(key, known.size);
    return (known.get(key) ?? 0) % COLOURS;
  });
}

function joined(plot: Plot): uPlot.AlignedData {
  const tables: uPlot.AlignedData[] = plot.lines.map(([, x, y]) => [x, y]);
  const spread = plot.spread;
  if (spread !== null) tables.unshift([spread.x, spread.high, spread.middle, spread.low]);
  return uPlot.join(tables);
}

/** Lowest and highest of what is drawn; the first steps count only where nothing else is there. */
function extent(drawn: uPlot.AlignedData, from: number, to: number): [number, number] {
  const x = drawn[0];
  const lead = from + ((to - from) * LEAD) / 100;
  let all: [number, number] = [Infinity, -Infinity];
  let later: [number, number] = [Infinity, -Infinity];
  for (const values of drawn.slice(1)) {
    for (let i = 0; i < values.length; i++) {
      const value = values[i];
      if (value === null || value === undefined) continue;
      all = [Math.min(all[0], value), Math.max(all[1], value)];
      if (x[i]! >= lead) later = [Math.min(later[0], value), Math.max(later[1], value)];
    }
  }
  const [low, high] = later[0] <= later[1] ? later : all;
  if (low > high) return [0, 1];
  const pad = (high - low || Math.abs(high) || 1) * 0.08;
  return [low >= 0 ? Math.max(0, low - pad) : low - pad, high + pad];
}

const number = (value: number): string => {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return String(Number(value.toPrecision(5)));
};

function placeOf(plot: Plot, x: number): string {
  if (plot.axis !== "time") return say(plot.axis === "row" ? "at_row" : "at_step", { n: number(x) });
  return new Date(x * 1000).toISOString().slice(0, 19).replace("T", " ");
}

/** What stands at one place of the axis, in words. */
function told(plot: Plot, drawn: uPlot.AlignedData, at: number): string {
  const parts: string[] = [];
  const first = plot.spread === null ? 1 : 4;
  if (plot.spread !== null && drawn[2]![at] !== undefined && drawn[2]![at] !== null) {
    parts.push(
      say("spread", { n: plot.spread.count, low: number(drawn[3]![at]!), middle: number(drawn[2]![at]!), high: number(drawn[1]![at]!) }),
    );
  }
  plot.lines.forEach(([course], i) => {
    const value = drawn[first + i]![at];
    if (value === undefined) return;
    const text = value === null ? say("no_number") : number(value);
    parts.push(plot.lines.length > 1 ? `${nameOf(course)}: ${text}` : text);
  });
  return `${placeOf(plot, drawn[0][at]!)} · ${parts.join(" · ")}`;
}

/** Marks of abnormal points, numbered as in the list below; and where a value is no number. */
function marks(plot: Plot, self: uPlot): void {
  const context = self.ctx;
  const ratio = uPlot.pxRatio;
  const { left, top, width, height } = self.bbox;
  context.save();
  context.font = `600 ${11 * ratio}px ui-sans-serif, system-ui, sans-serif`;
  context.textBaseline = "top";
  plot.marks.forEach(([x, kind], i) => {
    if (x === null) return;
    const at = Math.round(self.valToPos(x, "x", true));
    if (at < left || at > left + width) return;
    context.strokeStyle = context.fillStyle = colour(kind === "bad" ? "bad" : "muted");
    context.lineWidth = ratio;
    context.setLineDash([4 * ratio, 3 * ratio]);
    context.beginPath();
    context.moveTo(at, top);
    context.lineTo(at, top + height);
    context.stroke();
    const label = String(i + 1);
    const right = at + 4 * ratio + context.measureText(label).width > left + width;
    context.textAlign = right ? "right" : "left";
    context.fillText(label, at + (right ? -4 : 4) * ratio, top + 2 * ratio);
  });
  context.fillStyle = colour("bad");
  for (const [, x, y] of plot.lines) {
    y.forEach((value, i) => {
      if (value !== null) return;
      const at = self.valToPos(x[i]!, "x", true);
      if (at >= left && at <= left + width) context.fillRect(at - ratio, top + height - 5 * ratio, 2 * ratio, 5 * ratio);
    });
  }
  context.restore();
}

function series(plot: Plot): uPlot.Series[] {
  const made: uPlot.Series[] = [{}];
  const none = { show: false };
  if (plot.spread !== null) {
    const edge = { stroke: colour("band-edge"), width: 1, points: none };
    made.push(edge, { stroke: colour("ink"), width: 1.5, points: none }, edge);
  }
  const shade = shades(plot);
  plot.lines.forEach(([, x], i) => {
    const stroke = colour(`line-${shade[i]}`);
    const few = x.length <= 40;
    made.push({ stroke, width: 1.4, points: { show: few, size: 4, fill: stroke, stroke } });
  });
  return made;
}

function options(plot: Plot, drawn: uPlot.AlignedData, width: number, moved: (at: number) => void): uPlot.Options {
  const xs = drawn[0];
  const from = xs[0] ?? 0;
  const to = xs[xs.length - 1] ?? 1;
  const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
  const timed = plot.axis === "time";
  const clock = (_: uPlot, ticks: number[]): string[] => ticks.map((at) => new Date(at * 1000).toISOString().slice(to - from > 86400 ? 5 : 11, 16).replace("T", " "));
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false } },
    // Times are those of the wall clock that the counters were written by, in whatever zone that was.
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
    scales: { x: { time: timed, range: from === to ? [from - 1, to + 1] : undefined }, y: { range: extent(drawn, from, to) } },
    axes: [
      { ...axis, size: 34, space: to - from > 86400 && timed ? 110 : 70, ...(timed ? { values: clock } : {}) },
      { ...axis, size: 62, values: (_, ticks) => ticks.map(number) },
    ],
    series: series(plot),
    bands: plot.spread === null ? [] : [{ series: [1, 3], fill: colour("band") }],
    hooks: {
      draw: [(self) => marks(plot, self)],
      setCursor: [(self) => self.cursor.idx !== null && self.cursor.idx !== undefined && moved(self.cursor.idx)],
    },
  };
}

function keys(plot: Plot): HTMLElement | null {
  const shown = plot.lines.length + (plot.spread === null ? 0 : 1);
  if (shown < 2 && plot.spread === null) return null;
  const box = make("div", { class: "keys" });
  if (plot.spread !== null) {
    box.append(make("span", {}, make("i", { class: "key-band" }), say("band", { n: plot.spread.count })));
  }
  const shade = shades(plot);
  const seen = new Set<string>();
  plot.lines.forEach(([course], i) => {
    const name = nameOf({ ...course, attempt: 1 });
    if (seen.has(name)) return;
    seen.add(name);
    box.append(make("span", {}, make("i", { class: `key-line-${shade[i]}` }), name));
  });
  return box;
}

/** Arrow keys move over the values, as the pointer does. */
function steer(box: HTMLElement, count: number, current: () => uPlot | undefined): void {
  box.addEventListener("keydown", (event) => {
    const chart = current();
    const stride = Math.max(1, Math.round(count / 60));
    const now = chart?.cursor.idx ?? -1;
    const goal = { ArrowRight: now + stride, ArrowLeft: now - stride, Home: 0, End: count - 1 }[event.key];
    if (goal === undefined || chart === undefined) return;
    event.preventDefault();
    const at = Math.min(count - 1, Math.max(0, goal));
    chart.setCursor({ left: chart.valToPos(chart.data[0][at]!, "x"), top: 0 });
  });
}

function draw(plot: Plot, figure: HTMLElement): void {
  const box = figure.querySelector<HTMLElement>(".drawing")!;
  const now = figure.querySelector<HTMLElement>(".now")!;
  const drawn = joined(plot);
  if (drawn[0].length === 0) return;
  box.hidden = now.hidden = false;
  const legend = keys(plot);
  if (legend !== null) box.before(legend);
  let chart: uPlot | undefined;
  painted(() => {
    chart?.destroy();
    now.textContent = "";
    chart = new uPlot(
      options(plot, drawn, box.clientWidth, (at) => (now.textContent = told(plot, drawn, at))),
      drawn,
      box,
    );
  });
  steer(box, drawn[0].length, () => chart);
}

export function plots(): void {
  if (data.plots.length === 0) return;
  byId("plots-hint").hidden = false;
  data.plots.forEach((plot, i) => draw(plot, byId(`plot-${i}`)));
}
