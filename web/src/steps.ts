// Last step of every rank, as points: who is behind the others stands below them.

import uPlot from "uplot";

import { data, say } from "./data";
import { byId, colour, painted } from "./dom";

export function steps(): void {
  const pairs = data.ranks.rank
    .map((rank, row): [number, number | null] => [rank, data.ranks.last_step[row] ?? null])
    .filter((pair): pair is [number, number] => pair[1] !== null)
    .sort((a, b) => a[0] - b[0]);
  const values = pairs.map((pair) => pair[1]);
  if (new Set(values).size < 2) return;
  const low = values.reduce((a, b) => Math.min(a, b));
  const high = values.reduce((a, b) => Math.max(a, b));
  byId("steps").hidden = false;
  const box = byId("steps-plot");
  box.setAttribute("aria-label", say("steps_label", { n: pairs.length, low, high }));
  painted(() => {
    box.replaceChildren();
    const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
    const pad = Math.max(1, (high - low) * 0.08);
    new uPlot(
      {
        width: box.clientWidth,
        height: 180,
        legend: { show: false },
        cursor: { y: false },
        scales: { x: { time: false }, y: { range: [low - pad, high + pad] } },
        axes: [
          { ...axis, label: say("rank_column"), labelSize: 18, incrs: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096] },
          { ...axis, label: say("step_column"), labelSize: 18, size: 64, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 50000, 100000, 1000000] },
        ],
        series: [
          {},
          {
            stroke: colour("accent"),
            paths: () => null,
            points: { show: true, size: pairs.length > 2000 ? 3 : 6, fill: colour("accent"), stroke: colour("accent") },
          },
        ],
      },
      [pairs.map((pair) => pair[0]), values],
      box,
    );
  });
}
