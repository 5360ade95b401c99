// The table of ranks and process groups: sort, filter, equal rows as one, a few rows at a time.

import { data, duration, hostName, isCulprit, partName, runs, say, stateName } from "./data";
import { byId, make } from "./dom";

interface Row {
  row: number;
  group: number;
  at: number;
}

interface Shown {
  first: Row;
  rows: Row[];
}

interface Column {
  key: string;
  number: boolean;
  value: (row: Row) => string | number | null;
  /** What is shown; the value where it is left out. */
  text?: (row: Row) => string;
}

const FIRST = 60;
const MORE = 200;
const ranks = data.ranks;

const groupOf = (r: Row) => ranks.groups[r.group];

function cell(column: "enqueued" | "completed" | "seq" | "numel_in" | "numel_out" | "ran_ms" | "timeout_ms", r: Row): number | null {
  return groupOf(r)?.[column][r.at] ?? null;
}

function opOf(r: Row): string {
  const group = groupOf(r);
  const op = group?.op[r.at];
  return group === undefined || op === null || op === undefined ? "" : (group.ops[op] ?? "");
}

function stuck(r: Row): string | null {
  const seq = cell("seq", r);
  const text = `${opOf(r)}${seq === null ? "" : ` #${seq}`}`.trim();
  return text === "" ? null : text;
}

function elements(r: Row): string | null {
  const into = cell("numel_in", r);
  const out = cell("numel_out", r);
  if (into === null) return null;
  return into === out || out === null ? `${into}` : `${into} → ${out}`;
}

function noteOf(r: Row): string | null {
  const note = ranks.note[r.row];
  return note === null || note === undefined ? null : (ranks.notes[note] ?? null);
}

function placeOf(row: number): string | null {
  const file = ranks.file[row];
  const line = ranks.line[row];
  return file === null || file === undefined || line === null || line === undefined ? null : `${ranks.files[file]}:${line}`;
}

const COLUMNS: Column[] = [
  { key: "rank", number: true, value: (r) => ranks.rank[r.row] ?? null },
  { key: "host", number: false, value: (r) => hostName(r.row) },
  { key: "state", number: false, value: (r) => stateName(r.row), text: (r) => say(`state.${stateName(r.row)}`) },
  { key: "part", number: false, value: (r) => partName(r.row), text: (r) => (partName(r.row) === null ? "" : say(`part.${partName(r.row)}`)) },
  { key: "group", number: false, value: (r) => groupOf(r)?.name ?? null },
  { key: "enqueued", number: true, value: (r) => cell("enqueued", r) },
  { key: "completed", number: true, value: (r) => cell("completed", r) },
  { key: "stuck", number: false, value: stuck },
  { key: "elements", number: false, value: elements },
  { key: "ran", number: true, value: (r) => cell("ran_ms", r), text: (r) => (cell("ran_ms", r) === null ? "" : duration(cell("ran_ms", r)! / 1000)) },
  { key: "step", number: true, value: (r) => ranks.last_step[r.row] ?? null },
  { key: "note", number: false, value: noteOf },
  { key: "line", number: false, value: (r) => placeOf(r.row) },
];
const WRAPPED = new Set(["part", "stuck", "note", "line"]);
const OWN = new Set(["rank", "host", "line"]);

function allRows(): Row[] {
  const found: Row[] = [];
  const grouped = new Set<number>();
  ranks.groups.forEach((group, g) =>
    group.rows.forEach((row, at) => {
      grouped.add(row);
      found.push({ row, group: g, at });
    }),
  );
  ranks.rank.forEach((_, row) => {
    if (!grouped.has(row)) found.push({ row, group: -1, at: -1 });
  });
  return found.sort((a, b) => a.row - b.row || a.group - b.group);
}

/** `3` and `0-7,12`, also behind the word rank; null where the text is something else. */
function rangesOf(text: string): [number, number][] | null {
  const bare = text.replace(/^ranks?\s*/i, "").trim();
  if (!/^\d+(\s*-\s*\d+)?(\s*,\s*\d+(\s*-\s*\d+)?)*$/.test(bare)) return null;
  return bare.split(",").map((part) => {
    const [low, high] = part.split("-").map((n) => Number(n.trim()));
    return [low ?? 0, high ?? low ?? 0];
  });
}

class Table {
  private readonly rows = allRows();
  private readonly columns: Column[];
  private readonly find = byId<HTMLInputElement>("nccl-find");
  private readonly state = byId<HTMLSelectElement>("nccl-state");
  private readonly group = byId<HTMLSelectElement>("nccl-group");
  private readonly odd = byId<HTMLInputElement>("nccl-odd");
  private readonly fold = byId<HTMLInputElement>("nccl-fold");
  private readonly body = byId<HTMLTableElement>("nccl-table").tBodies[0]!;
  private sorted: Column | null = null;
  private down = false;
  private limit = FIRST;

  constructor() {
    this.columns = COLUMNS.filter((c) => c.key === "rank" || this.rows.some((r) => c.value(r) !== null));
  }

  start(): void {
    byId("nccl").hidden = false;
    const option = (select: HTMLSelectElement, value: string, text: string): void => select.append(make("option", { value }, text));
    option(this.state, "", say("all"));
    for (const state of ranks.states) option(this.state, state, say(`state.${state}`));
    option(this.group, "", say("all"));
    ranks.groups.forEach((group, i) => option(this.group, String(i), group.name));
    if (ranks.groups.length < 2) this.group.parentElement!.hidden = true;
    if (ranks.states.length < 2) this.state.parentElement!.hidden = true;
    if (!ranks.outlier.includes(true)) this.odd.parentElement!.hidden = true;
    this.fold.checked = this.rows.length > 16;
    const again = (): void => {
      this.limit = FIRST;
      this.paint();
    };
    let waiting = 0;
    this.find.addEventListener("input", () => {
      window.clearTimeout(waiting);
      waiting = window.setTimeout(again, 120);
    });
    for (const control of [this.state, this.group, this.odd, this.fold]) control.addEventListener("change", again);
    byId("nccl-more").addEventListener("click", () => {
      this.limit += MORE;
      this.paint();
    });
    this.head();
    this.paint();
  }

  only(rank: number): void {
    this.find.value = String(rank);
    this.state.value = "";
    this.group.value = "";
    this.odd.checked = false;
    this.limit = FIRST;
    this.paint();
    byId("nccl").scrollIntoView({ block: "nearest" });
  }

  private head(): void {
    const row = make("tr");
    for (const column of this.columns) {
      const title = say(`${column.key}_column`);
      const button = make("button", { type: "button", title: say("sort", { column: title }) }, title);
      const cellOf = make("th", { scope: "col", class: column.number ? "n" : "" }, button);
      button.addEventListener("click", () => {
        this.down = this.sorted === column ? !this.down : false;
        this.sorted = column;
        for (const other of row.children) other.removeAttribute("aria-sort");
        cellOf.setAttribute("aria-sort", this.down ? "descending" : "ascending");
        this.paint();
      });
      row.append(cellOf);
    }
    byId<HTMLTableElement>("nccl-table").tHead!.replaceChildren(row);
    this.means();
  }

  /** What the columns say that are not plain from their names. */
  private means(): void {
    const told = this.columns.filter((column) => `${column.key}_means` in data.say);
    const box = byId("nccl-means");
    box.hidden = told.length === 0;
    box.append(
      make("dl", {}, ...told.map(({ key }) => make("div", {}, make("dt", {}, say(`${key}_column`)), make("dd", {}, say(`${key}_means`))))),
    );
  }

  private wanted(): Row[] {
    const text = this.find.value.trim().toLowerCase();
    const ranges = text === "" ? null : rangesOf(text);
    const state = this.state.value;
    const group = this.group.value === "" ? null : Number(this.group.value);
    return this.rows.filter((r) => {
      if (state !== "" && stateName(r.row) !== state) return false;
      if (group !== null && r.group !== group) return false;
      if (this.odd.checked && !ranks.outlier[r.row] && !isCulprit(r.row)) return false;
      if (text === "") return true;
      const rank = ranks.rank[r.row]!;
      if (ranges !== null) return ranges.some(([low, high]) => rank >= low && rank <= high);
      return this.columns.some((c) => (c.text?.(r) ?? String(c.value(r) ?? "")).toLowerCase().includes(text));
    });
  }

  private ordered(rows: Row[]): Row[] {
    const column = this.sorted;
    if (column === null) return rows;
    const sign = this.down ? -1 : 1;
    return [...rows].sort((a, b) => {
      const x = column.value(a);
      const y = column.value(b);
      if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
      return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true }));
    });
  }

  private folded(rows: Row[]): Shown[] {
    if (!this.fold.checked) return rows.map((first) => ({ first, rows: [first] }));
    const found = new Map<string, Shown>();
    for (const r of rows) {
      const told = this.columns.filter((c) => !OWN.has(c.key)).map((c) => c.text?.(r) ?? c.value(r) ?? "");
      const key = JSON.stringify([isCulprit(r.row), ...told]);
      const known = found.get(key);
      if (known === undefined) found.set(key, { first: r, rows: [r] });
      else known.rows.push(r);
    }
    return [...found.values()];
  }

  private paint(): void {
    const rows = this.ordered(this.wanted());
    const shown = this.folded(rows);
    const some = shown.slice(0, this.limit);
    this.body.replaceChildren(...some.map((s) => this.row(s)));
    byId("nccl-count").textContent = this.fold.checked && shown.length < rows.length
      ? say("rows_folded", { rows: shown.length, all: rows.length })
      : say("rows", { shown: some.length, all: this.rows.length });
    const more = byId<HTMLButtonElement>("nccl-more");
    more.hidden = some.length === shown.length;
    more.textContent = say("show_more", { n: Math.min(MORE, shown.length - some.length) });
  }

  private row(shown: Shown): HTMLTableRowElement {
    const r = shown.first;
    const tr = make("tr", { class: isCulprit(r.row) ? "culprit" : ranks.outlier[r.row] ? "odd" : "" });
    for (const column of this.columns) {
      const tag = column.key === "rank" ? "th" : "td";
      const td = make(tag, { class: this.classOf(column, shown) });
      if (tag === "th") td.setAttribute("scope", "row");
      td.append(this.cell(column, shown));
      tr.append(td);
    }
    return tr;
  }

  private classOf(column: Column, shown: Shown): string {
    if (WRAPPED.has(column.key)) return `${column.key}-cell`;
    return column.number && !(column.key === "rank" && shown.rows.length > 1) ? "n" : "";
  }

  private cell(column: Column, shown: Shown): Node | string {
    const r = shown.first;
    const many = shown.rows.length > 1;
    if (column.key === "rank" && many) {
      const numbers = shown.rows.map((one) => ranks.rank[one.row]!);
      const span = make("span", {}, runs(numbers, 6), " ");
      span.append(make("small", {}, say("ranks", { n: numbers.length })));
      return span;
    }
    if (column.key === "host" && many) {
      const hosts = new Set(shown.rows.map((one) => hostName(one.row)).filter((h) => h !== null));
      return hosts.size === 1 ? [...hosts][0]! : hosts.size === 0 ? "" : say("hosts", { n: hosts.size });
    }
    if (column.key === "state") {
      return make("span", { class: "state", "data-state": stateName(r.row) }, column.text?.(r) ?? "");
    }
    if (column.key === "line") {
      const anchor = data.anchors[`${ranks.file[r.row]}:${ranks.line[r.row]}`];
      const place = placeOf(r.row) ?? "";
      return anchor === undefined ? place : make("a", { class: "place", href: `#${anchor}` }, place);
    }
    return column.text?.(r) ?? String(column.value(r) ?? "");
  }
}

let table: Table | null = null;

export function nccl(): void {
  if (ranks.rank.length === 0) return;
  table = new Table();
  table.start();
}

/** Shows one rank alone in the table. */
export function showRank(rank: number, _host: string | null): void {
  table?.only(rank);
}
