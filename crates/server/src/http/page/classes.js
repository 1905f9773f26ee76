// The table of classes and their curves, the page moves, and the chunk sizes.

import { lineChart, text } from "./chart.js";
import { byId, bytes, classColour, duration, element, micros, number, percent, replace, svg } from "./format.js";
import { row, table } from "./memory.js";

// The columns: title, value to sort by, and content of the cell.
const COLUMNS = [
  ["Class", (it) => it.class, (it) => name(it)],
  ["Chunk", (it) => it.chunk_size_bytes, (it) => bytes(it.chunk_size_bytes)],
  ["Pages", (it) => it.pages, (it) => number(it.pages)],
  ["Items", (it) => it.items, (it) => number(it.items)],
  ["Tail age", (it) => it.tail_age_seconds, (it) => (it.items ? duration(it.tail_age_seconds) : "–")],
  ["Gets", (it) => it.curve?.get_share ?? 0, (it) => percent(it.curve?.get_share)],
  ["Hits/s", (it) => it.rates.hits ?? 0, (it) => number(it.rates.hits)],
  ["Sets/s", (it) => it.rates.sets ?? 0, (it) => number(it.rates.sets)],
  ["Evictions/s", (it) => it.rates.evictions ?? 0, (it) => number(it.rates.evictions)],
  ["Waste", (it) => waste(it), (it) => bytes(waste(it))],
  ["Miss ratio", (it) => it.curve?.miss_ratio ?? 0, (it) => percent(it.curve?.miss_ratio)],
  ["Next page hits", (it) => it.curve?.next_page_hit_ratio ?? 0, (it) => percent(it.curve?.next_page_hit_ratio, 3)],
];

let sortedBy = 1;
let isDescending = false;
let chosen = null;
let before = { at: 0, classes: new Map() };
let shown = [];

const waste = (it) => it.inside_chunks_bytes + it.free_chunks_bytes + it.page_ends_bytes;

function name(it) {
  const swatch = element("span", { class: "swatch" });
  swatch.style.background = classColour(it.class);
  const label = `${it.class}${it.is_retired ? " (retired)" : ""}`;
  const choose = element("button", { type: "button", "aria-expanded": String(chosen === it.class) }, label);
  choose.dataset.key = `class-${it.class}`;
  choose.title = "Show the miss-ratio curve of the class";
  choose.addEventListener("click", () => {
    chosen = chosen === it.class ? null : it.class;
    draw();
  });
  return element("span", { class: "name" }, swatch, choose);
}

// Shows the classes. The rates are those since the call before.
export function showClasses(classes) {
  const now = performance.now();
  const span = (now - before.at) / 1000;
  for (const it of classes) {
    const last = before.classes.get(it.class);
    const rate = (key) => (last && it[key] >= last[key] ? (it[key] - last[key]) / span : null);
    it.rates = { hits: rate("hits"), sets: rate("sets"), evictions: rate("evictions") };
  }
  before = { at: now, classes: new Map(classes.map((it) => [it.class, it])) };
  shown = classes.filter((it) => it.pages > 0 || it.items > 0 || it.curve);
  draw();
}

// Draws the table again, and keeps the focus of the keyboard on the same button.
function draw() {
  const focused = document.activeElement?.dataset?.key;
  const hasFocus = focused && byId("classes").contains(document.activeElement);
  drawTable();
  if (hasFocus) byId("classes").querySelector(`button[data-key="${focused}"]`)?.focus({ preventScroll: true });
}

function drawTable() {
  const value = COLUMNS[sortedBy][1];
  const sorted = shown.toSorted((a, b) => (value(a) - value(b)) * (isDescending ? -1 : 1));
  const heads = COLUMNS.map(([title], index) => {
    const sort = element("button", { type: "button" }, `${title}${index === sortedBy ? (isDescending ? " ▾" : " ▴") : ""}`);
    sort.dataset.key = `column-${index}`;
    sort.addEventListener("click", () => {
      [isDescending, sortedBy] = [index === sortedBy ? !isDescending : index > 0, index];
      draw();
    });
    return sort;
  });
  const rows = sorted.map((it) => {
    const made = row(COLUMNS.map(([, , content]) => content(it)), [0]);
    if (it.class === chosen) made.className = "chosen";
    return made;
  });
  const made = table(heads, rows, [0]);
  made.querySelectorAll("th").forEach((head, index) => {
    if (index === sortedBy) head.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
  });
  replace("classes", made);
  drawCurve();
}

function drawCurve() {
  const it = shown.find((other) => other.class === chosen);
  const target = byId("curve");
  target.hidden = !it;
  if (!it) return;
  const title = `Class ${it.class}: predicted miss ratio by its memory`;
  if (!it.curve) {
    target.replaceChildren(element("h3", {}, title), element("p", {}, "The class has no profiled gets."));
    return;
  }
  const points = it.curve.points.map((point) => [point.memory_percent, point.miss_ratio]);
  const chart = lineChart(title, [{ name: "miss ratio", class: "first", points }], {
    width: 640, x: (x) => `${x} %`, y: (y) => percent(y), yMax: 1, marks: [[100, it.curve.miss_ratio]],
  });
  const words = `One page more: ${percent(it.curve.next_page_hit_ratio, 3)} of all gets would hit in addition. ` +
    `One page less: ${percent(it.curve.last_page_hit_ratio, 3)} would miss in addition.`;
  target.replaceChildren(element("h3", {}, title), chart, element("p", { class: "muted" }, words));
}

export function showPlans(plans) {
  byId("plans-words").textContent = `Policy ${plans.page_policy}: ${number(plans.moves_planned)} moves planned since it was selected.`;
  const change = (from, to) => (from === null || to === null ? "–" : `${percent(from, 2)} → ${percent(to, 2)}`);
  const rows = plans.plans.map((it) => row([
    `${duration(it.age_seconds)} ago`, number(it.moves_begun), it.reason,
    change(it.predicted_miss_ratio_before, it.predicted_miss_ratio_after),
    change(it.measured_miss_ratio_before, it.measured_miss_ratio_after),
  ], [2]));
  const moves = plans.moves.slice(0, 20).map((it) => row([
    `${duration(it.age_seconds)} ago`, `${it.from_class} → ${it.to_class || "pool"}`, it.reason,
    it.is_moved ? "moved" : "given up", `${number(it.items_rescued)} / ${number(it.items_evicted)}`, micros(it.duration_us),
  ], [2, 3]));
  if (plans.plans.length + plans.moves.length === 0) {
    return replace("plans", element("p", {}, "The server has tried to move no page yet."));
  }
  replace("plans",
    element("h3", {}, "Plans"),
    table(["When", "Pages", "Reason", "Predicted miss ratio", "Measured miss ratio"], rows, [2]),
    element("h3", {}, "Last moves"),
    table(["When", "Classes", "Reason", "Result", "Items kept / evicted", "Took"], moves, [2, 3]));
}

export function showSizes(sizes) {
  const total = sizes.items.reduce((sum, it) => sum + it.items, 0);
  if (total === 0) {
    byId("sizes-words").textContent = "The cache is empty.";
    return replace("sizes");
  }
  const age = sizes.last_change_age_seconds;
  const learned = sizes.is_learned
    ? `The server has changed the chunk sizes ${sizes.changes === 1 ? "once" : `${sizes.changes} times`}${age === null ? "" : `, last ${duration(age)} ago`}.`
    : "The chunk sizes are fixed.";
  const inside = (it) => bytes(it.inside_chunks_bytes + it.page_ends_bytes + it.chains_bytes);
  const lost = sizes.current_waste ? ` Waste now ${inside(sizes.current_waste)}, with the best sizes ${inside(sizes.best_waste)}.` : "";
  byId("sizes-words").textContent = learned + lost;
  const [width, height, left] = [560, 150, 8];
  // The range is at least a factor of four.
  const middle = Math.sqrt(sizes.items[0].size_bytes_max * sizes.items.at(-1).size_bytes_max);
  const smallest = Math.min(sizes.items[0].size_bytes_max, Math.round(middle / 2));
  const largest = Math.max(sizes.items.at(-1).size_bytes_max, Math.round(middle * 2));
  const toX = (size) => left + (Math.log(size / smallest) / (Math.log(largest / smallest) || 1)) * (width - 2 * left);
  const most = Math.max(...sizes.items.map((it) => it.items));
  const chart = svg("svg", {
    class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Item sizes from ${bytes(smallest)} to ${bytes(largest)}, and ${sizes.table_bytes.length} chunk sizes`,
  });
  sizes.items.forEach((it, index) => {
    const from = index === 0 ? it.size_bytes_max * 0.98 : sizes.items[index - 1].size_bytes_max;
    const tall = (it.items / most) * (height - 40);
    const wide = Math.max(1, toX(it.size_bytes_max) - toX(from));
    chart.append(svg("rect", { class: "bar", x: toX(from), y: height - 20 - tall, width: wide, height: tall }));
  });
  const ticks = (table, kind, y1, y2) => table
    .filter((size) => size >= smallest && size <= largest)
    .forEach((size) => chart.append(svg("line", { class: kind, x1: toX(size), x2: toX(size), y1, y2 })));
  ticks(sizes.first_table_bytes, "tick-first", 2, 14);
  ticks(sizes.table_bytes, "tick-now", 14, height - 20);
  chart.append(text(left, height - 4, bytes(smallest), "start"), text(width - left, height - 4, bytes(largest), "end"));
  const key = element("p", { class: "muted" }, "Bars: items by size.",
    element("span", { class: "key" }), "chunk sizes now", element("span", { class: "key second" }), "at the start");
  replace("sizes", chart, key);
}
