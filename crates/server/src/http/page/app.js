// The dashboard: reads the API once a second, and draws.

import { showClasses, showPlans, showSizes } from "./classes.js";
import { byId, duration, setClassColours } from "./format.js";
import { showHotKeys } from "./hot_keys.js";
import { showCharts, showTiles } from "./history.js";
import { showMemory, showPages, showWhatIf } from "./memory.js";

const FAST_MS = 1000;
// The documents that change slowly are read in every fifth turn.
const SLOW_TURNS = 5;
// The samples of the last seconds have no gaps. Those of a long period can be many seconds apart.
const RECENT_SECONDS = 12;
// How long the page waits after an error, in turns.
const ERROR_TURNS = 3;

let isPaused = false;
let turn = 0;
let token = sessionStorage.getItem("token") ?? "";

// A document cannot be read. The message is the status that the page shows.
class Unreadable extends Error {}
class NeedsToken extends Unreadable {}

async function read(name) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  let response;
  try {
    response = await fetch(`/api/v1/${name}`, { headers, signal: AbortSignal.timeout(10_000) });
  } catch {
    throw new Unreadable("not reachable");
  }
  if (response.status === 401) throw new NeedsToken("token required");
  if (!response.ok) throw new Unreadable(`status ${response.status}`);
  return response.json();
}

function setStatus(text, kind) {
  const badge = byId("status");
  if (badge.textContent !== text) badge.textContent = text;
  badge.className = `badge ${kind}`;
}

async function update() {
  const period = byId("period").value;
  const [overview, recent, history, pages, classes] = await Promise.all(
    ["overview", `history?seconds=${RECENT_SECONDS}`, `history?seconds=${period}`, "pages", "classes"].map(read));
  byId("server").textContent =
    `${location.host} · version ${overview.version} · up ${duration(overview.uptime_seconds)} · ` +
    `eviction ${overview.eviction}, pages by ${overview.page_policy}`;
  setClassColours(classes.filter((it) => it.pages > 0));
  showTiles(overview, recent);
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
      if (!isPaused) setStatus("live", "good");
    } catch (error) {
      wait = ERROR_TURNS * FAST_MS;
      byId("token-panel").hidden = !(error instanceof NeedsToken);
      setStatus(error instanceof Unreadable ? error.message : "error in this page", "bad");
      if (!(error instanceof Unreadable)) console.error(error);
    }
  }
  setTimeout(run, wait);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light theme" : "Dark theme";
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
  byId("pause").textContent = isPaused ? "Continue" : "Pause";
  setStatus(isPaused ? "paused" : "connecting", "");
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
