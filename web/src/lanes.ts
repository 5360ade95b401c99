// Lanes over time: who said something, who waited in a collective, who went quiet, who died; ranks that are alike share one.

import { data, duration, hostName, isCulprit, partName, rowName, runs, say, stateName } from "./data";
import { byId, canvasOf, colour, make, painted, textWidth } from "./dom";

interface Lane {
  rows: number[];
  odd: boolean;
  begins: number | null;
  active: number | null;
  waitFrom: number | null;
  waitTo: number | null;
  died: number | null;
  diedAfter: number | null;
  diedBefore: number | null;
  reported: number | null;
  ends: number | null;
}

const ALONE = 16;
const SHOWN = 24;
const HEIGHT = 22;
const TOP = 30;
const STRIP = 18;
/** Stuck collectives that are named above the lanes: those of the verdict, then those in which most ranks waited. */
const BANDS = 3;

/** A collective in which ranks waited, and from when to when. */
interface Band {
  name: string;
  group: string;
  inVerdict: boolean;
  ranks: number;
  from: number;
  to: number;
}
const ranks = data.ranks;

class LaneChart {
  private readonly canvas = byId<HTMLCanvasElement>("lanes-map");
  private readonly now = byId("lanes-now");
  private readonly hint = this.now.textContent ?? "";
  private readonly lanes: Lane[];
  private readonly bands: Band[];
  private readonly top: number;
  private whole = false;
  private shown = SHOWN;
  private chosen = -1;
  private left = 180;

  constructor(private readonly times: NonNullable<typeof data.lanes>) {
    this.lanes = this.folded();
    this.bands = this.stuck();
    this.top = TOP + this.bands.length * STRIP;
  }

  start(): void {
    byId("lanes").hidden = false;
    const near = byId<HTMLButtonElement>("lanes-near");
    const all = byId<HTMLButtonElement>("lanes-all");
    const turn = (whole: boolean): void => {
      this.whole = whole;
      near.setAttribute("aria-pressed", String(!whole));
      all.setAttribute("aria-pressed", String(whole));
      this.paint();
    };
    near.addEventListener("click", () => turn(false));
    all.addEventListener("click", () => turn(true));
    if (this.from() <= 0) near.parentElement!.hidden = true;
    const more = byId<HTMLButtonElement>("lanes-more");
    more.addEventListener("click", () => {
      this.shown += 100;
      this.paint();
    });
    this.canvas.addEventListener("pointermove", (event) => this.choose(Math.floor((event.offsetY - this.top) / HEIGHT)));
    this.canvas.addEventListener("pointerleave", () => this.choose(-1));
    this.canvas.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      const to = this.chosen + (event.key === "ArrowDown" ? 1 : -1);
      this.choose(Math.min(Math.max(to, 0), this.visible().length - 1));
      event.preventDefault();
    });
    this.legend();
    painted(() => this.paint());
  }

  /** Lanes that look alike become one; the odd ones stand alone, as far as there are few. */
  private folded(): Lane[] {
    const t = this.times;
    const grain = Math.max(t.seconds / 200, 1);
    const at = (value: number | null | undefined): number | null => value ?? null;
    const coarse = (value: number | null): string => (value === null ? "-" : String(Math.round(value / grain)));
    const found = new Map<string, Lane>();
    let alone = 0;
    ranks.rank.forEach((rank, row) => {
      const odd = isCulprit(row) || (ranks.outlier[row] ?? false);
      const single = odd && alone < ALONE;
      if (single) alone++;
      const lane: Lane = {
        rows: [row],
        odd,
        begins: at(t.begins[row]),
        active: at(t.active_to[row]),
        waitFrom: at(t.wait_from[row]),
        waitTo: at(t.wait_to[row]),
        died: at(t.died[row]),
        diedAfter: at(t.died_after[row]),
        diedBefore: at(t.died_before[row]),
        reported: at(t.reported[row]),
        ends: at(t.ends[row]),
      };
      const alike = [stateName(row), partName(row) ?? "", odd ? "odd" : ""];
      const drawn = [lane.active, lane.waitFrom, lane.waitTo, lane.died, lane.diedAfter, lane.diedBefore, lane.reported, lane.ends].map(coarse);
      const key = single ? `rank ${rank}` : [...alike, ...drawn].join("|");
      const known = found.get(key);
      if (known === undefined) found.set(key, lane);
      else this.join(known, lane);
    });
    const lanes = [...found.values()];
    return lanes.sort((a, b) => {
      const culprit = Number(isCulprit(b.rows[0]!)) - Number(isCulprit(a.rows[0]!));
      return culprit || Number(b.odd) - Number(a.odd) || b.rows.length - a.rows.length || a.rows[0]! - b.rows[0]!;
    });
  }

  private join(lane: Lane, other: Lane): void {
    lane.rows.push(...other.rows);
    lane.begins = lowest(lane.begins, other.begins);
    lane.waitFrom = lowest(lane.waitFrom, other.waitFrom);
    lane.died = lowest(lane.died, other.died);
    lane.diedAfter = lowest(lane.diedAfter, other.diedAfter);
    lane.reported = lowest(lane.reported, other.reported);
    lane.diedBefore = highest(lane.diedBefore, other.diedBefore);
    lane.active = highest(lane.active, other.active);
    lane.waitTo = highest(lane.waitTo, other.waitTo);
    lane.ends = highest(lane.ends, other.ends);
  }

  /** The collectives in which ranks waited: those of the verdict first, then those with most ranks. */
  private stuck(): Band[] {
    const found = new Map<string, Band>();
    for (const group of ranks.groups) {
      group.rows.forEach((row, at) => {
        const from = this.times.wait_from[row] ?? null;
        const to = this.times.wait_to[row] ?? null;
        const op = group.op[at] ?? null;
        if (from === null || to === null || op === null || !group.in_flight[at]) return;
        const seq = group.seq[at] ?? null;
        const name = `${group.ops[op]}${seq === null ? "" : ` #${seq}`}`;
        const key = `${name} ${group.name}`;
        const known = found.get(key);
        if (known === undefined) found.set(key, { name, group: group.name, inVerdict: group.in_verdict, ranks: 1, from, to });
        else {
          known.ranks++;
          known.from = Math.min(known.from, from);
          known.to = Math.max(known.to, to);
        }
      });
    }
    const first = (a: Band, b: Band): number => Number(b.inVerdict) - Number(a.inVerdict) || b.ranks - a.ranks || a.from - b.from;
    return [...found.values()].sort(first).slice(0, BANDS);
  }

  /** What is said of a band: all of it, without its group, and its name alone. */
  private words(band: Band): string[] {
    const values = { n: band.ranks, time: duration(band.to - band.from) };
    return [say("band_name", { name: `${band.name} (${band.group})`, ...values }), say("band_name", { name: band.name, ...values }), band.name];
  }

  private band(context: CanvasRenderingContext2D, band: Band, i: number, x: (at: number) => number, height: number): void {
    const y = TOP - 6 + i * STRIP;
    const [left, wide] = [x(band.from), Math.max(x(band.to) - x(band.from), 3)];
    context.fillStyle = colour("band");
    context.fillRect(left, y, wide, height - y);
    context.fillStyle = colour("band-edge");
    context.fillRect(left, y, wide, STRIP - 3);
    context.font = "600 11px ui-sans-serif, system-ui, sans-serif";
    const room = wide > 120 ? wide - 12 : Math.max(left - 16, 40);
    const words = this.words(band);
    const text = words.find((one) => context.measureText(one).width <= room) ?? textWidth(context, words[words.length - 1]!, room);
    context.fillStyle = colour("ink");
    context.textAlign = wide > 120 ? "left" : "right";
    context.fillText(text, wide > 120 ? left + 6 : left - 6, y + STRIP / 2 - 1);
    context.textAlign = "left";
  }

  private visible(): Lane[] {
    return this.lanes.slice(0, this.shown);
  }

  /** Where the shown stretch begins: some time before the first wait, death or sign. */
  private from(): number {
    if (this.whole) return 0;
    const t = this.times;
    const marks = [...t.wait_from, ...t.died, ...t.died_before, ...t.reported, this.signed() ? (t.first_fault ?? t.fault_before) : null].filter((v): v is number => typeof v === "number");
    if (marks.length === 0) return 0;
    let first = marks.reduce((a, b) => Math.min(a, b));
    const reach = (t.seconds - first) * 2;
    // What an odd rank last did belongs into the picture, unless it lies so far back that nothing else could be seen.
    for (const lane of this.lanes) {
      if (lane.odd && lane.active !== null && lane.active < first && lane.active > first - reach) first = lane.active;
    }
    const before = Math.max((t.seconds - first) * 0.3, 30);
    return first - before < t.seconds * 0.1 ? 0 : first - before;
  }

  private paint(): void {
    const width = this.canvas.parentElement!.clientWidth;
    this.left = Math.min(210, width * 0.36);
    const lanes = this.visible();
    const height = this.top + lanes.length * HEIGHT + 6;
    const context = canvasOf(this.canvas, width, height);
    if (context === null) return;
    const from = this.from();
    const to = this.times.seconds;
    const x = (at: number): number => this.left + ((Math.max(at, from) - from) / Math.max(to - from, 0.1)) * (width - this.left - 14);
    context.textBaseline = "middle";
    const shown = this.bands.filter((band) => band.to >= from);
    shown.forEach((band, i) => this.band(context, band, i, x, height));
    this.axis(context, from, to, x, height);
    lanes.forEach((lane, i) => this.lane(context, lane, i, x, from));
    this.fault(context, x, from, height);
    const more = byId<HTMLButtonElement>("lanes-more");
    const rest = this.lanes.length - lanes.length;
    more.hidden = rest === 0;
    more.textContent = say("show_more", { n: Math.min(rest, 100) });
    const counts = [...this.sign(), ...this.bands.map((band) => this.words(band)[0]!), ...lanes.slice(0, 6).map((lane) => `${this.name(lane)}: ${this.text(lane)}`)].join("; ");
    this.canvas.setAttribute(
      "aria-label",
      say("lanes_label", { n: ranks.rank.length, time: duration(to - from), counts }),
    );
  }

  private axis(
    context: CanvasRenderingContext2D, from: number, to: number, x: (at: number) => number, height: number,
  ): void {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800];
    const room = Math.max(2, Math.floor((x(to) - x(from)) / 90));
    const step = steps.find((s) => (to - from) / s <= room) ?? (to - from) / room;
    const zero = clockStart(this.times.origin.earliest);
    context.font = "11px ui-monospace, monospace";
    context.lineWidth = 1;
    const begin = Math.ceil((from + zero) / step) * step - zero;
    for (let at = begin; at <= to; at += step) {
      context.strokeStyle = colour("line");
      context.beginPath();
      context.moveTo(x(at) + 0.5, this.top - 6);
      context.lineTo(x(at) + 0.5, height);
      context.stroke();
      context.fillStyle = colour("muted");
      context.textAlign = at === begin ? "left" : "center";
      if (x(at) < x(to) - 24) context.fillText(clock(this.times.origin.earliest, at, step < 60), x(at), 10);
    }
    context.textAlign = "left";
  }

  private lane(
    context: CanvasRenderingContext2D, lane: Lane, i: number, x: (at: number) => number, from: number,
  ): void {
    const y = this.top + i * HEIGHT + HEIGHT / 2;
    const end = this.times.seconds;
    if (i === this.chosen) {
      context.fillStyle = colour("hover");
      context.fillRect(0, y - HEIGHT / 2, x(end) + 14, HEIGHT);
    }
    context.font = `${lane.odd ? "600 " : ""}12px ui-sans-serif, system-ui, sans-serif`;
    context.fillStyle = colour(lane.odd ? "ink" : "muted");
    context.fillText(textWidth(context, this.name(lane), this.left - 12), 0, y);
    context.strokeStyle = colour("quiet");
    context.setLineDash([1, 4]);
    context.beginPath();
    context.moveTo(x(from), y);
    context.lineTo(x(end), y);
    context.stroke();
    context.setLineDash([]);
    if ([lane.begins, lane.active, lane.waitFrom, lane.died, lane.diedAfter, lane.diedBefore, lane.reported, lane.ends].every((at) => at === null)) {
      const told = say("lane_none");
      context.fillStyle = colour("surface");
      context.fillRect(x(from), y - 8, context.measureText(told).width + 8, 16);
      context.fillStyle = colour("muted");
      context.fillText(told, x(from), y);
    }
    if (lane.begins !== null && lane.active !== null && lane.active >= from) {
      context.fillStyle = colour("lane-active");
      context.fillRect(x(lane.begins), y - 5, Math.max(x(lane.active) - x(lane.begins), 3), 10);
    }
    if (lane.waitFrom !== null && lane.waitTo !== null && lane.waitTo >= from) {
      context.fillStyle = colour("lane-wait");
      context.fillRect(x(lane.waitFrom), y - 5, Math.max(x(lane.waitTo) - x(lane.waitFrom), 3), 10);
    }
    if (lane.reported !== null && lane.reported >= from) {
      context.strokeStyle = colour("ink");
      context.lineWidth = 1.5;
      context.strokeRect(x(lane.reported) - 4.5, y - 4.5, 9, 9);
      context.lineWidth = 1;
    }
    if (lane.ends !== null && lane.ends >= from) {
      context.fillStyle = colour("ink");
      context.fillRect(x(lane.ends) - 1, y - 7, 2, 14);
    }
    const within = this.within(lane.diedAfter, lane.diedBefore, from);
    if (within !== null) {
      const [left, right] = [x(within[0]), Math.max(x(within[1]), x(within[0]) + 6)];
      context.strokeStyle = colour("bad");
      context.lineWidth = 2;
      context.setLineDash([5, 3]);
      context.beginPath();
      context.moveTo(left, y);
      context.lineTo(right, y);
      context.stroke();
      context.setLineDash([]);
      context.beginPath();
      for (const [at, told] of [[left, lane.diedAfter], [right, lane.diedBefore]] as const) {
        if (told === null || told < from) continue;
        context.moveTo(at, y - 6);
        context.lineTo(at, y + 6);
      }
      context.stroke();
      context.lineWidth = 1;
    }
    if (lane.died !== null && lane.died >= from) {
      context.strokeStyle = colour("bad");
      context.lineWidth = 2.5;
      context.beginPath();
      for (const side of [-1, 1]) {
        context.moveTo(x(lane.died) - 5, y - 5 * side);
        context.lineTo(x(lane.died) + 5, y + 5 * side);
      }
      context.stroke();
      context.lineWidth = 1;
    }
  }

  private fault(context: CanvasRenderingContext2D, x: (at: number) => number, from: number, height: number): void {
    const at = this.times.first_fault;
    const within = this.within(this.times.fault_after, this.times.fault_before, from);
    context.strokeStyle = colour("bad");
    if (within !== null) {
      const [left, right] = [x(within[0]), Math.max(x(within[1]), x(within[0]) + 6)];
      context.fillStyle = colour("bad");
      context.globalAlpha = 0.1;
      context.fillRect(left, 18, right - left, height - 18);
      context.globalAlpha = 1;
      context.fillRect(left, 18, right - left, 3);
      context.setLineDash([4, 3]);
      context.beginPath();
      for (const [edge, told] of [[left, this.times.fault_after], [right, this.times.fault_before]] as const) {
        if (told === null || told < from || told > this.times.seconds) continue;
        context.moveTo(edge + 0.5, 18);
        context.lineTo(edge + 0.5, height);
      }
      context.stroke();
      context.setLineDash([]);
    }
    if (at === null || at < from || at > this.times.seconds) return;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(x(at), 18);
    context.lineTo(x(at), height);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colour("bad");
    context.beginPath();
    context.moveTo(x(at) - 5, 16);
    context.lineTo(x(at) + 5, 16);
    context.lineTo(x(at), 24);
    context.fill();
  }

  /** Whether the first sign lies in the picture; one on a clock that is not joined may lie far outside. */
  private signed(): boolean {
    const t = this.times;
    if (t.first_fault !== null) return t.first_fault >= 0 && t.first_fault <= t.seconds;
    return this.within(t.fault_after, t.fault_before, 0) !== null;
  }

  /** What of a stretch lies in the picture; an end that no line tells is the picture's. */
  private within(after: number | null, before: number | null, from: number): [number, number] | null {
    if (after === null && before === null) return null;
    const [left, right] = [Math.max(after ?? from, from), Math.min(before ?? this.times.seconds, this.times.seconds)];
    return left <= right ? [left, right] : null;
  }

  /** The first sign in words. */
  private sign(): string[] {
    const t = this.times;
    return this.signed() ? this.moment("fault", t.first_fault, t.fault_after, t.fault_before) : [];
  }

  /** A moment in words: one stamp, or those around it. */
  private moment(what: string, at: number | null, after: number | null, before: number | null): string[] {
    const tell = (seconds: number | null): string => (seconds === null ? "" : clock(this.times.origin.earliest, seconds));
    const values = { at: tell(at), from: tell(after), to: tell(before) };
    if (at !== null) return [say(what === "fault" ? "fault_at" : "lane_died", values)];
    if (after !== null && before !== null) return [say(`${what}_between`, values)];
    if (after !== null) return [say(`${what}_after`, values)];
    return before === null ? [] : [say(`${what}_before`, values)];
  }

  private legend(): void {
    const some = (key: "active" | "waitFrom" | "ends" | "died" | "diedAfter" | "diedBefore" | "reported"): boolean => this.lanes.some((lane) => lane[key] !== null);
    const keys = [some("active") && "active", some("waitFrom") && "waited", "quiet", some("ends") && "last"];
    keys.push(some("died") && "died", (some("diedAfter") || some("diedBefore")) && "died_within");
    keys.push(some("reported") && "reported");
    keys.push(this.signed() && (this.times.first_fault === null ? "first_fault_within" : "first_fault"));
    byId("lanes-keys").replaceChildren(
      ...keys.filter((key): key is string => key !== false).map((key) => make("span", {}, make("i", { class: `key-${key}` }), say(key))),
    );
  }

  private name(lane: Lane): string {
    if (lane.rows.length === 1) return rowName(lane.rows[0]!);
    const numbers = lane.rows.map((row) => ranks.rank[row]!);
    const hosts = new Set(lane.rows.map(hostName));
    const one = hosts.size === 1 ? [...hosts][0] : null;
    return `${say("ranks", { n: numbers.length })}: ${runs(numbers, 4)}${one ? ` · ${one}` : ""}`;
  }

  private text(lane: Lane): string {
    const origin = this.times.origin.earliest;
    const parts: string[] = [];
    if (lane.begins !== null && lane.active !== null) {
      parts.push(say("lane_active", { from: clock(origin, lane.begins), to: clock(origin, lane.active) }));
    }
    if (lane.waitFrom !== null && lane.waitTo !== null) {
      const time = duration(lane.waitTo - lane.waitFrom);
      parts.push(say("lane_wait", { from: clock(origin, lane.waitFrom), to: clock(origin, lane.waitTo), time }));
    }
    parts.push(...this.moment("lane_died", lane.died, lane.diedAfter, lane.diedBefore));
    if (lane.reported !== null) parts.push(say("lane_reported", { at: clock(origin, lane.reported) }));
    if (parts.length === 0 && lane.ends !== null) parts.push(say("lane_last", { at: clock(origin, lane.ends) }));
    return parts.length === 0 ? say("lane_none") : parts.join("; ");
  }

  private choose(at: number): void {
    const lane = this.visible()[at];
    const to = lane === undefined ? -1 : at;
    if (to === this.chosen) return;
    this.chosen = to;
    this.now.textContent = lane === undefined ? this.hint : `${this.name(lane)} · ${say(`state.${stateName(lane.rows[0]!)}`)} · ${this.text(lane)}`;
    this.paint();
  }
}

function lowest(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.min(a, b);
}

function highest(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.max(a, b);
}

/** Seconds of the day at which the origin lies, by the clock of the lines. */
function clockStart(iso: string | null): number {
  const found = /(\d\d):(\d\d):(\d\d)/.exec(iso ?? "");
  return found === null ? 0 : Number(found[1]) * 3600 + Number(found[2]) * 60 + Number(found[3]);
}

/** A moment on the clock of the lines; with its day where it is another than the first one's. */
function clock(iso: string | null, at: number, seconds = true): string {
  const total = Math.round(clockStart(iso) + at);
  const day = Math.floor(total / 86400);
  const rest = total - day * 86400;
  const two = (n: number): string => String(Math.floor(n)).padStart(2, "0");
  const text = `${two(rest / 3600)}:${two((rest % 3600) / 60)}${seconds ? `:${two(rest % 60)}` : ""}`;
  if (day <= 0) return text;
  const start = /^(\d{4})-(\d\d)-(\d\d)T/.exec(iso ?? "");
  if (start === null) return `+${day}d ${text}`;
  return `${new Date(Date.UTC(Number(start[1]), Number(start[2]) - 1, Number(start[3]) + day)).toISOString().slice(5, 10)} ${text}`;
}

export function lanes(): void {
  const times = data.lanes;
  if (times === null || ranks.rank.length === 0) return;
  if ([times.begins, times.wait_from, times.died, times.reported].every((column) => column.every((at) => at === null))) return;
  new LaneChart(times).start();
}
