// The heat map: one cell a rank, by node, on a canvas; outliers are ringed and listed.

import { data, hostName, isCulprit, partName, rowName, rowText, runs, say, stateName } from "./data";
import { between, byId, canvasOf, colour, make, painted, textWidth } from "./dom";
import { showRank } from "./nccl";

interface Kind {
  label: string;
  colour: string;
  rows: number[];
}

interface Cell {
  row: number;
  x: number;
  y: number;
}

const TALLEST = 380;
/** Nodes from which on the map takes the whole width of the page, and half as much height again. */
const MANY = 256;
const LABEL = "12px ui-sans-serif, system-ui, sans-serif";
const ranks = data.ranks;
const order = ranks.rank.map((_, row) => row).sort((a, b) => ranks.rank[a]! - ranks.rank[b]!);

/** Rows by node, nodes in the order of their lowest rank; rows without a known host are the last block. */
function nodes(): { name: string | null; rows: number[] }[] {
  const found = new Map<number | null, number[]>();
  for (const row of order) {
    const host = ranks.host[row] ?? null;
    const rows = found.get(host);
    if (rows === undefined) found.set(host, [row]);
    else rows.push(row);
  }
  const blocks = [...found].map(([host, rows]) => ({ name: host === null ? null : (ranks.hosts[host] ?? null), rows }));
  return [...blocks.filter((b) => b.name !== null), ...blocks.filter((b) => b.name === null)];
}

function ways(): [string, string][] {
  const found: [string, string][] = [["state", say("by_state")]];
  if (ranks.parts.length > 0) found.push(["part", say("by_part")]);
  if (new Set(ranks.last_step.filter((s) => s !== null)).size > 1) found.push(["step", say("by_step")]);
  ranks.groups.forEach((group, i) => {
    if (new Set(group.completed.filter((c) => c !== null)).size > 1) {
      found.push([`group${i}`, say("by_completed", { group: group.name })]);
    }
  });
  return found;
}

function byName(name: (row: number) => string | null, key: string): Kind[] {
  const found = new Map<string, number[]>();
  for (const row of order) {
    const word = name(row) ?? "";
    const rows = found.get(word);
    if (rows === undefined) found.set(word, [row]);
    else rows.push(row);
  }
  const kinds = [...found].map(([word, rows]) => ({
    label: word === "" ? say("none") : say(`${key}.${word}`),
    colour: colour(word === "" ? "cell-none" : `${key}-${word}`) || colour("cell-none"),
    rows,
  }));
  return kinds.sort((a, b) => a.rows.length - b.rows.length);
}

/** Numbers in at most five steps, the lowest in the strongest colour: who is behind is who is looked for. */
function byNumber(value: (row: number) => number | null): Kind[] {
  const known = order.filter((row) => value(row) !== null);
  const distinct = [...new Set(known.map((row) => value(row)!))].sort((a, b) => a - b);
  const low = distinct[0] ?? 0;
  const high = distinct[distinct.length - 1] ?? 0;
  const few = distinct.length <= 5;
  const count = few ? distinct.length : 5;
  const kinds: Kind[] = Array.from({ length: count }, (_, i) => {
    const from = few ? distinct[i]! : Math.round(low + ((high - low) * i) / count);
    const to = few ? from : Math.round(low + ((high - low) * (i + 1)) / count) - (i === count - 1 ? 0 : 1);
    return {
      label: from === to ? `${from}` : `${from} .. ${to}`,
      colour: between(colour("scale-low"), colour("scale-high"), count === 1 ? 1 : i / (count - 1)),
      rows: known.filter((row) => value(row)! >= from && value(row)! <= to),
    };
  });
  const unknown = order.filter((row) => value(row) === null);
  if (unknown.length > 0) kinds.push({ label: say("none"), colour: colour("cell-none"), rows: unknown });
  return kinds.filter((kind) => kind.rows.length > 0);
}

function kindsOf(way: string): Kind[] {
  if (way === "part") return byName(partName, "part");
  if (way === "step") return byNumber((row) => ranks.last_step[row] ?? null);
  const group = way.startsWith("group") ? ranks.groups[Number(way.slice(5))] : undefined;
  if (group !== undefined) {
    const at = new Map(group.rows.map((row, i) => [row, group.completed[i] ?? null]));
    return byNumber((row) => at.get(row) ?? null);
  }
  return byName(stateName, "state");
}

class Heat {
  private readonly canvas = byId<HTMLCanvasElement>("heat-map");
  private readonly now = byId("heat-now");
  private readonly blocks = nodes();
  private readonly hint = this.now.textContent ?? "";
  private cells: Cell[] = [];
  private wide = 10;
  private high = 10;
  private way = "state";
  private only: number | null = null;
  private kinds: Kind[] = [];
  private chosen = -1;

  start(): void {
    byId("heat").hidden = false;
    byId("heat").classList.toggle("wide", this.blocks.length > MANY);
    const select = byId<HTMLSelectElement>("heat-by");
    const all = ways();
    for (const [value, label] of all) select.append(make("option", { value }, label));
    if (all.length < 2) select.parentElement!.hidden = true;
    select.addEventListener("change", () => {
      this.way = select.value;
      this.only = null;
      this.paint();
    });
    this.canvas.addEventListener("pointermove", (event) => this.choose(this.at(event.offsetX, event.offsetY)));
    this.canvas.addEventListener("pointerleave", () => this.choose(-1));
    this.canvas.addEventListener("click", (event) => this.open(this.at(event.offsetX, event.offsetY)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.outliers();
    painted(() => this.paint());
  }

  private layout(width: number): number {
    const most = Math.max(...this.blocks.map((b) => b.rows.length));
    return this.blocks.length <= 24 && most <= 16 ? this.labelled(width, most) : this.tiled(width, most);
  }

  /** One node a line, with its name. */
  private labelled(width: number, most: number): number {
    const context = this.canvas.getContext("2d");
    if (context !== null) context.font = LABEL;
    const widest = Math.max(...this.blocks.map((b) => context?.measureText(b.name ?? say("no_host")).width ?? 100));
    const left = Math.min(widest + 14, width * 0.4);
    const pitch = Math.min(38, Math.max(13, Math.floor(TALLEST / this.blocks.length)));
    this.high = pitch - 4;
    this.wide = Math.max(4, Math.min(46, Math.floor((width - left) / most)));
    this.cells = this.blocks.flatMap((block, i) => block.rows.map((row, j) => ({ row, x: left + j * this.wide, y: i * pitch })));
    return this.blocks.length * pitch;
  }

  /** Nodes as small blocks side by side. */
  private tiled(width: number, most: number): number {
    const columns = Math.min(most, this.blocks.length === 1 ? Math.max(8, Math.ceil(Math.sqrt(most * 2))) : 8);
    const tall = Math.ceil(most / columns);
    const shape = (size: number): [number, number, number] => {
      const gap = size > 8 ? 8 : size > 5 ? 3 : 1;
      const across = Math.max(1, Math.floor((width + gap) / (columns * size + gap)));
      return [gap, across, Math.ceil(this.blocks.length / across) * (tall * size + gap)];
    };
    const tallest = this.blocks.length > MANY ? TALLEST * 1.5 : TALLEST;
    let size = 30;
    while (size > 2 && (shape(size)[2] > tallest || columns * size > width)) size--;
    const [gap, across, height] = shape(size);
    this.wide = this.high = size;
    this.cells = this.blocks.flatMap((block, i) => {
      const x = (i % across) * (columns * size + gap);
      const y = Math.floor(i / across) * (tall * size + gap);
      return block.rows.map((row, j) => ({ row, x: x + (j % columns) * size, y: y + Math.floor(j / columns) * size }));
    });
    return Math.max(height, size + 2);
  }

  private paint(): void {
    this.kinds = kindsOf(this.way);
    const width = this.canvas.parentElement!.clientWidth;
    const height = this.layout(width);
    const context = canvasOf(this.canvas, width, height);
    if (context === null) return;
    const fill = new Array<string>(ranks.rank.length);
    this.kinds.forEach((kind, i) => {
      const shown = this.only === null || this.only === i ? kind.colour : colour("cell-dim");
      for (const row of kind.rows) fill[row] = shown;
    });
    const inset = this.wide > 6 ? 2 : this.wide > 3 ? 1 : 0;
    for (const cell of this.cells) {
      context.fillStyle = fill[cell.row] ?? colour("cell-none");
      context.fillRect(cell.x, cell.y, this.wide - inset, this.high - inset);
    }
    this.labels(context);
    this.rings(context, inset, fill);
    this.legend();
    this.describe();
  }

  private labels(context: CanvasRenderingContext2D): void {
    const first = this.cells[0];
    if (first === undefined) return;
    context.textBaseline = "middle";
    if (first.x > 0) {
      context.font = LABEL;
      context.fillStyle = colour("muted");
      let at = 0;
      for (const block of this.blocks) {
        const cell = this.cells[at]!;
        context.fillText(textWidth(context, block.name ?? say("no_host"), first.x - 12), 0, cell.y + this.high / 2 - 1);
        at += block.rows.length;
      }
    }
    if (this.wide < 24 || this.high < 16) return;
    context.font = "600 11px ui-monospace, monospace";
    context.textAlign = "center";
    context.fillStyle = colour("cell-ink");
    for (const cell of this.cells) {
      context.fillText(String(ranks.rank[cell.row]), cell.x + this.wide / 2 - 1, cell.y + this.high / 2 - 1);
    }
    context.textAlign = "start";
  }

  private rings(context: CanvasRenderingContext2D, inset: number, fill: string[]): void {
    const small = this.wide <= 6;
    for (const cell of this.cells) {
      const culprit = isCulprit(cell.row);
      if (!culprit && !(ranks.outlier[cell.row] && small)) continue;
      context.strokeStyle = colour(culprit ? "ink" : "bad");
      context.lineWidth = culprit ? 2 : 1;
      // A small cell is drawn larger than it is: among thousands nobody would see its colour.
      const out = small ? (culprit ? 4 : 2) : 1;
      const [x, y, side] = [cell.x - out, cell.y - out, this.wide - inset + 2 * out];
      if (small) {
        context.fillStyle = fill[cell.row] ?? colour("cell-none");
        context.fillRect(x, y, side, this.high - inset + 2 * out);
      }
      context.strokeRect(x, y, side, this.high - inset + 2 * out);
    }
    const chosen = this.cells[this.chosen];
    if (chosen === undefined) return;
    context.strokeStyle = colour("accent");
    context.lineWidth = 2;
    context.strokeRect(chosen.x - 2, chosen.y - 2, this.wide - inset + 4, this.high - inset + 4);
  }

  private legend(): void {
    const box = byId("heat-keys");
    const focused = box.contains(document.activeElement) ? [...box.children].indexOf(document.activeElement!) : -1;
    box.replaceChildren(
      ...this.kinds.map((kind, i) => {
        const swatch = make("i", { "aria-hidden": "true" });
        swatch.style.background = kind.colour;
        const button = make("button", { type: "button", "aria-pressed": this.only === i ? "true" : "false" });
        button.append(swatch, `${kind.label} `, make("b", {}, String(kind.rows.length)));
        button.addEventListener("click", () => {
          this.only = this.only === i ? null : i;
          this.paint();
        });
        return button;
      }),
    );
    if (focused >= 0) (box.children[focused] as HTMLElement | undefined)?.focus();
  }

  private describe(): void {
    const counts = this.kinds.map((kind) => `${kind.rows.length} ${kind.label}`).join(", ");
    const hosts = this.blocks.filter((b) => b.name !== null).length;
    this.canvas.setAttribute("aria-label", say("heat_label", { n: ranks.rank.length, nodes: hosts, counts }));
  }

  private outliers(): void {
    const box = byId("heat-odd");
    const odd = order.filter((row) => ranks.outlier[row] || isCulprit(row));
    odd.sort((a, b) => Number(isCulprit(b)) - Number(isCulprit(a)) || a - b);
    if (odd.length === 0) {
      box.append(make("p", { class: "none" }, say("odd_none")));
      return;
    }
    box.append(make("h4", {}, `${say("odd")} (${odd.length})`));
    const list = make("ul", { class: "plain" });
    for (const row of odd.slice(0, 8)) {
      const button = make("button", { type: "button" }, rowName(row));
      button.addEventListener("click", () => this.open(this.cells.findIndex((cell) => cell.row === row)));
      const item = make("li", {}, button, ` ${say(`state.${stateName(row)}`)}`);
      if (isCulprit(row)) item.append(" ", make("span", { class: "chip" }, say("culprit")));
      list.append(item);
    }
    box.append(list);
    const rest = odd.slice(8);
    if (rest.length > 0) {
      box.append(make("p", { class: "note" }, `${say("more", { n: rest.length })}: ${runs(rest.map((r) => ranks.rank[r]!))}`));
    }
  }

  private at(x: number, y: number): number {
    return this.cells.findIndex((c) => x >= c.x && x < c.x + this.wide && y >= c.y && y < c.y + this.high);
  }

  private choose(at: number): void {
    if (at === this.chosen) return;
    this.chosen = at;
    const cell = this.cells[at];
    this.now.textContent = cell === undefined ? this.hint : rowText(cell.row);
    this.paint();
  }

  private open(at: number): void {
    const cell = this.cells[at];
    if (cell === undefined) return;
    this.choose(at);
    showRank(ranks.rank[cell.row]!, hostName(cell.row));
  }

  private key(event: KeyboardEvent): void {
    const here = this.cells[this.chosen];
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Enter") this.open(this.chosen);
    else if (event.key === "Home") this.choose(0);
    else if (event.key === "End") this.choose(this.cells.length - 1);
    else if (step !== undefined) this.choose(Math.min(Math.max(this.chosen + step, 0), this.cells.length - 1));
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.choose(this.beyond(here, event.key === "ArrowDown"));
    else return;
    event.preventDefault();
  }

  /** The nearest cell of the next row below or above. */
  private beyond(here: Cell | undefined, down: boolean): number {
    if (here === undefined) return 0;
    let best = this.chosen;
    let nearest = Infinity;
    this.cells.forEach((cell, i) => {
      const dy = down ? cell.y - here.y : here.y - cell.y;
      if (dy <= 0) return;
      const distance = dy * 1000 + Math.abs(cell.x - here.x);
      if (distance < nearest) {
        nearest = distance;
        best = i;
      }
    });
    return best;
  }
}

export function heat(): void {
  if (ranks.rank.length > 1) new Heat().start();
}
