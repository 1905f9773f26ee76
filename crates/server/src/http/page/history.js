// The tiles and the charts over time.

import { lineChart } from "./chart.js";
import { bytes, clock, duration, element, micros, number, percent, replace } from "./format.js";

// Returns a line of the rate of a counter per second. A counter that falls belongs to a server that was started again.
function rate(samples, name) {
  return samples.slice(1).map((sample, index) => {
    const before = samples[index];
    const span = sample.time_seconds - before.time_seconds;
    const change = sample[name] - before[name];
    return [sample.time_seconds, span > 0 && change >= 0 ? change / span : null];
  });
}

function ratio(samples, part, whole) {
  return samples.slice(1).map((sample, index) => {
    const before = samples[index];
    const all = sample[whole] - before[whole];
    return [sample.time_seconds, all > 0 ? (sample[part] - before[part]) / all : null];
  });
}

export function showCharts(samples) {
  const line = (name, kind, points) => ({ name, class: kind, points });
  const value = (name) => samples.map((sample) => [sample.time_seconds, sample[name]]);
  const charts = [
    ["Hit ratio of gets", [line("hit ratio", "first", ratio(samples, "get_hits", "gets"))],
      { y: (y) => percent(y, 0), yMax: 1 }],
    ["Requests per second", [
      line("gets", "first", rate(samples, "gets")), line("sets", "second", rate(samples, "sets")),
    ], { y: number }],
    ["Time of a get on the server", [
      line("median", "first", value("get_median_us")), line("99th percentile", "second", value("get_p99_us")),
    ], { y: micros }],
    ["Evictions and page moves per second", [
      line("evictions", "first", rate(samples, "evictions")),
      line("page moves", "second", rate(samples, "page_moves")),
    ], { y: number }],
  ];
  const figures = charts.map(([title, lines, options]) => {
    const keys = lines.length < 2 ? [] : lines.flatMap((it) => [element("span", { class: `key ${it.class}` }), it.name]);
    const caption = element("h3", {}, title, ...(keys.length ? [" "] : []), ...keys);
    return element("div", {}, caption, lineChart(title, lines, { x: clock, ...options }));
  });
  replace("charts", ...figures);
}

export function showTiles(overview, samples) {
  const last = samples.at(-1);
  const recent = samples.filter((it) => it.time_seconds >= last.time_seconds - 10);
  const mean = (points) => {
    const known = points.map(([, y]) => y).filter((y) => y !== null);
    return known.length ? known.reduce((sum, y) => sum + y, 0) / known.length : null;
  };
  const first = recent[0] ?? overview;
  const gets = overview.gets - first.gets;
  const tiles = [
    ["Hit ratio", gets > 0 ? percent((overview.get_hits - first.get_hits) / gets) : "–", "last 10 s"],
    ["Gets", number(mean(rate(recent, "gets"))), "per second"],
    ["Sets", number(mean(rate(recent, "sets"))), "per second"],
    ["Evictions", number(mean(rate(recent, "evictions"))), "per second"],
    ["99th percentile of gets", micros(last?.get_p99_us), ""],
    ["Items", number(overview.items), bytes(overview.item_bytes)],
    ["Memory", percent(overview.held_bytes / overview.memory_limit_bytes, 0), `of ${bytes(overview.memory_limit_bytes)}`],
    ["Connections", number(overview.connections), `of ${number(overview.connections_max)}`],
    ["Uptime", duration(overview.uptime_seconds), ""],
  ];
  replace("tiles", ...tiles.map(([name, value, detail]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value, " ", element("small", {}, detail)))));
}
