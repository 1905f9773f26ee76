// The predictions for more and less memory, the page map, and the memory of the process.

import { lineChart } from "./chart.js";
import { byId, bytes, classColour, element, number, percent, replace } from "./format.js";

export function showWhatIf(whatIf) {
  if (!whatIf || whatIf.points.length === 0) {
    byId("what-if-words").textContent = whatIf
      ? "Predictions need some minutes of traffic."
      : "Keys are not profiled, so there are no predictions. To see them, start the server with -o profile=on.";
    replace("what-if-chart");
    replace("what-if-table");
    return;
  }
  const points = whatIf.points.map((it) => [it.memory_percent / 100, it.miss_ratio]);
  const now = whatIf.points.find((it) => it.memory_percent === 100);
  byId("what-if-words").textContent = sentence(whatIf, now);
  const lines = [{ name: "predicted miss ratio", class: "first", points: points.map(([x, y]) => [Math.log2(x), y]) }];
  const band = whatIf.points.map((it) => [Math.log2(it.memory_percent / 100), it.miss_ratio_low, it.miss_ratio_high]);
  const chart = lineChart("Predicted miss ratio by memory", lines, {
    width: 560,
    x: (x) => bytes(2 ** x * whatIf.memory_limit_bytes),
    y: (y) => percent(y),
    marks: [[0, now.miss_ratio]],
    band,
  });
  replace("what-if-chart", chart);
  const rows = whatIf.points.map((it) =>
    row([bytes((it.memory_percent / 100) * whatIf.memory_limit_bytes), `${it.memory_percent} %`, percent(it.miss_ratio, 2),
      `${percent(it.miss_ratio_low, 2)} to ${percent(it.miss_ratio_high, 2)}`]));
  replace("what-if-table", table(["Memory", "Share of the present memory", "Miss ratio", "Error band"], rows));
}

// Says in words what twice and half the memory would change.
function sentence(whatIf, now) {
  const change = (memoryPercent) => {
    const then = whatIf.points.find((it) => it.memory_percent === memoryPercent);
    if (!then) return null;
    const difference = Math.abs(memoryPercent - 100) / 100 * whatIf.memory_limit_bytes;
    const misses = (then.miss_ratio - now.miss_ratio) / now.miss_ratio;
    // Changes of very few misses are given as miss ratios.
    if (now.miss_ratio < 0.001) {
      return `with ${bytes(difference)} ${memoryPercent > 100 ? "more" : "less"} ${percent(then.miss_ratio, 2)} would miss`;
    }
    const effect = Math.abs(misses) < 0.005 ? "as much" : `${percent(Math.abs(misses), 0)} ${misses < 0 ? "less" : "more"}`;
    return `with ${bytes(difference)} ${memoryPercent > 100 ? "more" : "less"} it would miss ${effect}`;
  };
  const parts = [change(200), change(150), change(50)].filter((part) => part !== null);
  return `${percent(now.miss_ratio)} of recent gets missed. The prediction: ${parts.join("; ")}.`;
}

let cellsBefore = [];
let changedAt = [];

// Draws a cell for each page. Cells that changed in the last seconds have a frame.
export function showPages(pages, classes) {
  const canvas = byId("page-map");
  // The canvas itself is only as wide as its cells.
  const width = byId("page-map-room").clientWidth || 300;
  const count = pages.cells.length;
  const size = Math.max(3, Math.min(18, Math.floor(Math.sqrt((width * 260) / count))));
  const columns = Math.max(1, Math.floor(width / size));
  const rows = Math.ceil(count / columns);
  const scale = window.devicePixelRatio || 1;
  canvas.width = columns * size * scale;
  canvas.height = rows * size * scale;
  canvas.style.width = `${columns * size}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const style = getComputedStyle(document.documentElement);
  const now = performance.now();
  pages.cells.forEach((number, index) => {
    if (cellsBefore.length === count && cellsBefore[index] !== number) changedAt[index] = now;
    const [x, y] = [(index % columns) * size, Math.floor(index / columns) * size];
    context.fillStyle = number === 0 ? style.getPropertyValue("--ground") : classColour(number);
    context.fillRect(x, y, size - 1, size - 1);
    if (now - (changedAt[index] ?? -Infinity) < 4000) {
      context.strokeStyle = style.getPropertyValue("--text");
      context.lineWidth = Math.max(1, size / 6);
      context.strokeRect(x + 1, y + 1, size - 3, size - 3);
    }
  });
  cellsBefore = pages.cells;
  const unit = pages.pages_per_cell === 1 ? "A cell is a page" : `A cell is ${pages.pages_per_cell} pages`;
  byId("pages-words").textContent =
    `${unit} of ${bytes(pages.page_size_bytes)}. ${number(pages.page_moves)} pages have moved since the start.`;
  const owners = classes.filter((it) => it.pages > 0).toSorted((a, b) => a.chunk_size_bytes - b.chunk_size_bytes);
  const shares = owners.map((it) => `class ${it.class} ${it.pages}`).join(", ");
  canvas.setAttribute("aria-label", `The class of each page: ${shares || "no class has pages"}`);
  replace("page-legend", ...owners.map((it) => {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = classColour(it.class);
    return element("li", {}, swatch, `${it.class}: ${bytes(it.chunk_size_bytes)}, ${number(it.pages)} pages`);
  }));
}

export function showMemory(memory) {
  const resident = memory.resident_bytes === null ? "" : `${bytes(memory.resident_bytes)} are resident. `;
  byId("memory-words").textContent =
    `${resident}The maximum is ${bytes(memory.model_bytes)}: ${bytes(memory.memory_limit_bytes)} for items (-m), ` +
    "and the following parts.";
  const uses = new Map(memory.uses.map((it) => [it.name, it]));
  const parts = memory.parts.map((part) => row([part.name, part.description, "", bytes(part.bytes_max)], [0, 1]));
  const used = [...uses.values()].map((it) => row([it.name, "memory whose size clients determine",
    element("span", {}, `${bytes(it.bytes)} `, gauge(it)), bytes(it.bytes_max)], [0, 1]));
  replace("memory", table(["Part", "Contents", "Used", "At most"], [...parts, ...used], [0, 1]));
}

function gauge(use) {
  return element("meter", { max: Math.max(1, use.bytes_max), value: use.bytes, "aria-label": `${use.name} used` });
}

// Makes a table row. `texts` are the columns with text.
export function row(cells, texts = []) {
  return element("tr", {}, ...cells.map((cell, index) => element("td", { class: texts.includes(index) ? "text" : "" }, cell)));
}

export function table(heads, rows, texts = []) {
  const head = heads.map((it, index) => element("th", { scope: "col", class: texts.includes(index) ? "text" : "" }, it));
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}
