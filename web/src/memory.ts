// What held the memory of a device, as a treemap; the same as a list below it.

import { hierarchy, treemap, treemapSquarify } from "d3-hierarchy";

import { bytes, data, say, type Memory } from "./data";
import { byId, make, painted, svg } from "./dom";

interface Leaf {
  name: string;
  size: number;
  kind: string;
  children?: Leaf[];
}

const HEIGHT = 260;

function leaves(row: Memory): Leaf[] {
  const found: Leaf[] = row.places.map(([name, size, , part, steady]) => ({ name, size, kind: steady ? "grows" : part || "other" }));
  if (row.rest > 0) found.push({ name: say("rest"), size: row.rest, kind: "other" });
  if (row.nameless > 0) found.push({ name: say("nameless"), size: row.nameless, kind: "none" });
  if (row.inactive > 0) found.push({ name: say("inactive"), size: row.inactive, kind: "free" });
  return found.filter((leaf) => leaf.size > 0);
}

function title(row: Memory): string {
  const rank = row.who === null ? "" : `${say("rank", { n: row.who })} · `;
  return `${rank}${row.host === null ? "" : `${row.host} · `}cuda:${row.device}`;
}

function draw(row: Memory): void {
  const box = byId("memory-map");
  const width = box.clientWidth;
  const all = leaves(row);
  const root = hierarchy<Leaf>({ name: "", size: 0, kind: "", children: all }).sum((leaf) => (leaf.children ? 0 : leaf.size));
  root.sort((a, b) => (b.value ?? 0) - (a.value ?? 0));
  const laid = treemap<Leaf>().tile(treemapSquarify).size([width, HEIGHT]).paddingInner(2)(root);
  const list = all.slice(0, 5).map((leaf) => `${leaf.name} ${bytes(leaf.size)}`).join(", ");
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img",
    "aria-label": say("memory_label", { device: title(row), list }),
  });
  for (const leaf of laid.leaves()) {
    const wide = leaf.x1 - leaf.x0;
    const high = leaf.y1 - leaf.y0;
    const group = svg("g", { transform: `translate(${leaf.x0},${leaf.y0})`, class: `leaf ${leaf.data.kind}` });
    group.append(svg("title", {}, `${leaf.data.name}: ${bytes(leaf.data.size)}`));
    group.append(svg("rect", { width: wide, height: high }));
    const room = Math.floor(wide / 7.2) - 1;
    if (room > 5 && high > 20) {
      const name = leaf.data.name.length > room ? `${leaf.data.name.slice(0, room - 1)}…` : leaf.data.name;
      group.append(svg("text", { x: 6, y: 16 }, name));
      if (high > 38) group.append(svg("text", { x: 6, y: 32, class: "size" }, bytes(leaf.data.size)));
    }
    picture.append(group);
  }
  const table = make("table");
  for (const leaf of [...all].sort((a, b) => b.size - a.size)) {
    table.append(make("tr", {}, make("th", { scope: "row" }, leaf.name), make("td", { class: "n" }, bytes(leaf.size))));
  }
  const failed = row.failed === null ? "" : `, ${say("failed_request", { size: bytes(row.failed) })}`;
  const details = make("details", {}, make("summary", {}, `${say("held", { size: bytes(row.held) })}${failed}`), table);
  box.replaceChildren(picture, details);
}

export function memory(): void {
  if (data.memory.length === 0 || data.memory.every((row) => leaves(row).length === 0)) return;
  byId("memory").hidden = false;
  const select = byId<HTMLSelectElement>("memory-of");
  data.memory.forEach((row, i) => select.append(make("option", { value: i }, title(row))));
  if (data.memory.length < 2) select.parentElement!.hidden = true;
  const paint = (): void => {
    const row = data.memory[Number(select.value)];
    if (row !== undefined) draw(row);
  };
  select.addEventListener("change", paint);
  painted(paint);
}
