// What the page carries for its pictures: columns of one entry a rank. It is text of ours about untrusted logs: no markup.

export type Column = (number | null)[];

export interface Group {
  name: string;
  in_verdict: boolean;
  rows: number[];
  enqueued: Column;
  completed: Column;
  op: Column;
  seq: Column;
  numel_in: Column;
  numel_out: Column;
  timeout_ms: Column;
  ran_ms: Column;
  in_flight: boolean[];
  ops: string[];
}

export interface Ranks {
  rank: number[];
  host: Column;
  local_rank: Column;
  node_rank: Column;
  state: number[];
  part: Column;
  outlier: boolean[];
  last_step: Column;
  phase: Column;
  note: Column;
  file: Column;
  line: Column;
  hosts: string[];
  states: string[];
  parts: string[];
  phases: string[];
  notes: string[];
  files: string[];
  groups: Group[];
  left_out: number;
}

export interface Lanes {
  origin: { earliest: string | null };
  seconds: number;
  first_fault: number | null;
  fault_after: number | null;
  fault_before: number | null;
  begins: Column;
  active_to: Column;
  wait_from: Column;
  wait_to: Column;
  died: Column;
  died_after: Column;
  died_before: Column;
  reported: Column;
  ends: Column;
}

/** Whose a line is. */
export interface PlotCourse {
  rank: number | null;
  device: string;
  host: string | null;
  file: string;
  attempt: number;
}

/** One column of the training metrics or of the counters of GPUs. */
export interface Plot {
  column: string;
  unit: string;
  axis: "step" | "row" | "time";
  lines: [course: PlotCourse, x: number[], y: Column][];
  spread: { count: number; x: number[]; low: number[]; middle: number[]; high: number[] } | null;
  /** Place, kind, sentence and name of the line on the page. */
  marks: [x: number | null, kind: "bad" | "planned", text: string, anchor: string][];
}

export interface Memory {
  who: number | null;
  host: string | null;
  device: number;
  failed: number | null;
  held: number;
  reserved: number;
  inactive: number;
  nameless: number;
  places: [string, number, number, string, boolean][];
  rest: number;
}

export interface Data {
  say: Record<string, string>;
  ranks: Ranks;
  expected: number | null;
  lanes: Lanes | null;
  culprits: number[];
  anchors: Record<string, string>;
  memory: Memory[];
  plots: Plot[];
}

const block = document.getElementById("data");
export const data = JSON.parse(block?.textContent ?? "{}") as Data;

/** A sentence of the catalogue with its gaps filled; a function fills them, so that `$` in a value stays what it is. */
export function say(key: string, values: Record<string, string | number> = {}): string {
  return (data.say[key] ?? key).replace(/\{(\w+)\}/g, (whole, name: string) =>
    name in values ? String(values[name]) : whole,
  );
}

export const stateName = (row: number): string => data.ranks.states[data.ranks.state[row] ?? 0] ?? "seen";

export function partName(row: number): string | null {
  const part = data.ranks.part[row];
  return part === null || part === undefined ? null : (data.ranks.parts[part] ?? null);
}

export function hostName(row: number): string | null {
  const host = data.ranks.host[row];
  return host === null || host === undefined ? null : (data.ranks.hosts[host] ?? null);
}

const culprits = new Set(data.culprits);
export const isCulprit = (row: number): boolean => culprits.has(data.ranks.rank[row] ?? -1);

/** Numbers as runs: `0-6, 8`. */
export function runs(numbers: number[], most = 8): string {
  const sorted = [...numbers].sort((a, b) => a - b);
  const parts: string[] = [];
  let from = 0;
  for (let i = 0; i < sorted.length; i++) {
    if (i + 1 < sorted.length && sorted[i + 1] === sorted[i]! + 1) continue;
    parts.push(from === i ? `${sorted[i]}` : `${sorted[from]}-${sorted[i]}`);
    from = i + 1;
  }
  return parts.length > most
    ? `${parts.slice(0, most).join(", ")} … ${say("more_runs", { n: parts.length - most })}`
    : parts.join(", ");
}

/** A duration as people say it. */
export function duration(seconds: number): string {
  if (seconds < 1) return say("time.ms", { n: Math.round(seconds * 1000) });
  if (seconds < 120) return say("time.s", { n: Math.round(seconds) });
  if (seconds < 7200) return say("time.min", { n: Math.round(seconds / 60) });
  return seconds < 172800 ? say("time.h", { n: (seconds / 3600).toFixed(1) }) : say("time.d", { n: (seconds / 86400).toFixed(1) });
}

/** Bytes for people. */
export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toPrecision(3)} ${units[unit]}`;
}

/** The row as a person names it: `rank 37 on node-04`. */
export function rowName(row: number): string {
  const host = hostName(row);
  const rank = say("rank", { n: data.ranks.rank[row] ?? "?" });
  return host === null ? rank : `${rank} · ${host}`;
}

/** What is known of a row, in one line. */
export function rowText(row: number): string {
  const ranks = data.ranks;
  const parts = [rowName(row), say(`state.${stateName(row)}`)];
  const part = partName(row);
  if (part !== null) parts.push(say(`part.${part}`));
  for (const group of ranks.groups) {
    const at = group.rows.indexOf(row);
    if (at < 0) continue;
    const op = group.op[at];
    const seq = group.seq[at];
    if (op !== null && op !== undefined) parts.push(`${group.ops[op]}${seq === null ? "" : ` #${seq}`} (${group.name})`);
    if (group.completed[at] !== null) parts.push(`${group.enqueued[at] ?? "?"}/${group.completed[at]}`);
    break;
  }
  const step = ranks.last_step[row];
  if (step !== null && step !== undefined) parts.push(say("step", { n: step }));
  const note = ranks.note[row];
  if (note !== null && note !== undefined) parts.push(ranks.notes[note] ?? "");
  return parts.filter((p) => p !== "").join(" · ");
}
