// The dashboard: reads the API once a second, and draws.

import { showClasses, showPlans, showSizes } from "./classes.js";
import { byId, duration, setClassColours } from "./format.js";
import { showHotKeys } from "./hot_keys.js";
import { showCharts, showTiles } from "./history.js";
import { showMemory, showPages, showWhatIf } from "./memory.js";

const FAST_MS = 1000;
// The documents that change slowly are read in every fifth turn.
const SLOW_TURNS = 5;
// How long the page waits after an error, in turns.
const ERROR_TURNS = 3;

let isPaused = false;
let turn = 0;
let token = sessionStorage.getItem("token") ?? "";

class NeedsToken extends Error {}

async function read(name) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const response = await fetch(`/api/v1/${name}`, { headers, signal: AbortSignal.timeout(10_000) });
  if (response.status === 401) throw new NeedsToken();
  if (!response.ok) throw new Error(`${name}: status ${response.status}`);
  return response.json();
}

function setStatus(text, kind) {
  const badge = byId("status");
  if (badge.textContent !== text) badge.textContent = text;
  badge.className = `badge ${kind}`;
}

async function update() {
  const period = byId("period").value;
  const [overview, history, pages, classes] = await Promise.all(
    ["overview", `history?seconds=${period}`, "pages", "classes"].map(read));
  byId("server").textContent =
    `${location.host} · version ${overview.version} · up ${duration(overview.uptime_seconds)} · ` +
    `eviction ${overview.eviction}, pages by ${overview.page_policy}`;
  setClassColours(classes.filter((it) => it.pages > 0));
  showTiles(overview, history);
  showCharts(history);
  showPages(pages, classes);
  showClasses(classes);
  if (turn % SLOW_TURNS === 0) {
    const [whatIf, plans, sizes, hotKeys, memory] = await Promise.all(
      ["what-if", "plans", "sizes", "hot-keys", "memory"].map(read));
    showWhatIf(whatIf);
    showPlans(plans);
    showSizes(sizes);
    showHotKeys(hotKeys);
    showMemory(memory);
  }
  turn += 1;
}

async function run() {
  let wait = FAST_MS;
  if (!isPaused && !document.hidden) {
    try {
      await update();
      byId("token-panel").hidden = true;
      setStatus("live", "good");
    } catch (error) {
      wait = ERROR_TURNS * FAST_MS;
      const needsToken = error instanceof NeedsToken;
      byId("token-panel").hidden = !needsToken;
      setStatus(needsToken ? "token required" : "not reachable", "bad");
    }
  }
  setTimeout(run, wait);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  turn = 0;
}

const systemTheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
setTheme(localStorage.getItem("theme") ?? systemTheme);
byId("theme").addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", theme);
  setTheme(theme);
});
byId("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  byId("pause").setAttribute("aria-pressed", String(isPaused));
  byId("pause").textContent = isPaused ? "Continue" : "Pause";
  setStatus(isPaused ? "paused" : "live", isPaused ? "" : "good");
});
function useToken() {
  token = byId("token").value.trim();
  sessionStorage.setItem("token", token);
}
byId("token-use").addEventListener("click", useToken);
byId("token").addEventListener("keydown", (event) => {
  if (event.key === "Enter") useToken();
});
run();
