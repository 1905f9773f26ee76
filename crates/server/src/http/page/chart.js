// Line charts as SVG.

import { svg } from "./format.js";

const WIDTH = 320;
const HEIGHT = 130;
const LEFT = 46;
const BOTTOM = 18;
const TOP = 8;

// Returns a round number that is not below `value`.
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((factor) => factor * power >= value * 0.9999);
  return step * power;
}

// Draws lines. `lines` are { name, class, points: [[x, y], ...] }, where y is null in a gap. `options` are the formats of
// both axes, and optionally the range of y, the width, marked points, and a band of [x, yLow, yHigh] behind the lines.
export function lineChart(title, lines, options) {
  const width = options.width ?? WIDTH;
  const points = lines.flatMap((line) => line.points).filter(([, y]) => y !== null && Number.isFinite(y));
  const xs = points.map(([x]) => x);
  const band = options.band ?? [];
  const ys = [...points.map(([, y]) => y), ...band.map(([, , high]) => high)];
  const [xMin, xMax] = [Math.min(...xs), Math.max(...xs)];
  const yMin = options.yMin ?? 0;
  const yMax = options.yMax ?? roundUp(Math.max(...ys));
  const toX = (x) => LEFT + ((x - xMin) / (xMax - xMin || 1)) * (width - LEFT - 8);
  const toY = (y) => TOP + (1 - (y - yMin) / (yMax - yMin || 1)) * (HEIGHT - TOP - BOTTOM);
  const last = (line) => line.points.findLast(([, y]) => y !== null);
  const summary = lines
    .map((line) => [line.name, last(line)])
    .filter(([, point]) => point)
    .map(([name, [, y]]) => `${name} ${options.y(y)}`)
    .join(", ");
  const chart = svg("svg", {
    class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${summary || "no data"}`,
  });
  for (const y of [yMin, (yMin + yMax) / 2, yMax]) {
    chart.append(svg("line", { class: "axis", x1: LEFT, x2: width - 8, y1: toY(y), y2: toY(y) }));
    chart.append(text(LEFT - 5, toY(y) + 4, options.y(y), "end"));
  }
  if (points.length === 0) return chart;
  for (const [x, anchor] of [[xMin, "start"], [xMax, "end"]]) {
    chart.append(text(toX(x), HEIGHT - 4, options.x(x), anchor));
  }
  if (band.length > 0) chart.append(area(band, toX, toY));
  for (const line of lines) chart.append(path(line, toX, toY));
  for (const [x, y] of options.marks ?? []) {
    chart.append(svg("circle", { class: "point", cx: toX(x), cy: toY(y), r: 4.5 }));
  }
  return chart;
}

export function text(x, y, content, anchor) {
  const made = svg("text", { x, y, "text-anchor": anchor });
  made.textContent = content;
  return made;
}

function area(band, toX, toY) {
  const upper = band.map(([x, , high]) => `${toX(x).toFixed(1)},${toY(high).toFixed(1)}`);
  const lower = band.map(([x, low]) => `${toX(x).toFixed(1)},${toY(low).toFixed(1)}`);
  return svg("polygon", { class: "band", points: [...upper, ...lower.reverse()].join(" ") });
}

function path(line, toX, toY) {
  let data = "";
  let pen = "M";
  for (const [x, y] of line.points) {
    if (y === null || !Number.isFinite(y)) {
      pen = "M";
      continue;
    }
    data += `${pen}${toX(x).toFixed(1)} ${toY(y).toFixed(1)}`;
    pen = "L";
  }
  return svg("path", { class: `series ${line.class}`, d: data || "M0 0" });
}
