// Checks the dashboard in a browser: see the script `run` in this folder.

import { spawn } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const [slabwise, pictures] = process.argv.slice(2);
const here = path.dirname(fileURLToPath(import.meta.url));
const axe = fs.readFileSync(path.join(here, "node_modules/axe-core/axe.min.js"), "utf8");
// The two phases of the workload, and the length of the whole replay in seconds.
const REPLAY = ["--workload", "two-phase", "--scale", "0.02", "--rate", "20000", "--batch", "8"];
const MEMORY_MIB = "16";
// A key that would run as a script if the page contained it as markup.
const SCRIPT_KEY = "page:<img/src=x/onerror=document.title=1>";
const WAIT_MS = 90_000;

const children = [];
process.on("exit", () => children.forEach((child) => child.kill()));
const failures = [];

function check(condition, text) {
  console.log(`${condition ? "ok" : "FAILED"}: ${text}`);
  if (!condition) failures.push(text);
}

function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

function start(...words) {
  const child = spawn(slabwise, words, { stdio: ["ignore", "ignore", "inherit"] });
  children.push(child);
  return child;
}

// Repeats `attempt` until it returns a value that is not null. An error counts as null.
async function until(text, attempt) {
  const deadline = Date.now() + WAIT_MS;
  while (Date.now() < deadline) {
    const value = await attempt().catch(() => null);
    if (value !== null && value !== false) return value;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`this did not happen within ${WAIT_MS / 1000} s: ${text}`);
}

// Returns the rows of a `stats` command.
function stats(port, subject) {
  return new Promise((resolve, reject) => {
    let text = "";
    const socket = net.connect(port, "127.0.0.1", () => socket.write(`stats ${subject}\r\n`));
    socket.on("error", reject);
    socket.on("data", (bytes) => {
      text += bytes;
      if (!text.endsWith("END\r\n")) return;
      socket.destroy();
      const rows = text.split("\r\n").filter((line) => line.startsWith("STAT "));
      resolve(new Map(rows.map((line) => line.split(" ").slice(1))));
    });
  });
}

// Sends gets of this key in several rounds.
function sendGets(port, key) {
  const [gets, replies, rounds] = [`get ${key}\r\n`.repeat(20), "END\r\n".repeat(20), 50];
  return new Promise((resolve, reject) => {
    let received = 0;
    const socket = net.connect(port, "127.0.0.1", () => socket.write(gets));
    socket.on("error", reject);
    socket.on("data", (bytes) => {
      received += bytes.length;
      if (received === rounds * replies.length) socket.end(resolve);
      else if (received % replies.length === 0) socket.write(gets);
    });
  });
}

async function accessibility(page, name) {
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => (await globalThis.axe.run()).violations);
  const serious = violations.filter((it) => ["serious", "critical"].includes(it.impact));
  const listed = serious.map((it) => `${it.id}: ${it.nodes.map((node) => node.target.join(" ")).join(", ")}`);
  check(serious.length === 0, `${name}: axe finds nothing serious ${listed.join("; ")}`);
}

const [port, http] = [await freePort(), await freePort()];
const user = process.getuid() === 0 ? ["-u", "root"] : [];
start("-p", String(port), "-l", "127.0.0.1", "-m", MEMORY_MIB, "-t", "2", "-o", `http=127.0.0.1:${http},http_hot_keys=20`, ...user);
await until("the server is ready", async () => (await fetch(`http://127.0.0.1:${http}/readyz`)).ok);

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const errors = [];
const hosts = new Set();

async function open(width, height, theme) {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: theme });
  page.on("console", (line) => line.type() === "error" && errors.push(line.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("request", (request) => hosts.add(new URL(request.url()).host));
  await page.goto(`http://127.0.0.1:${http}/`);
  await page.waitForSelector("#status.good");
  return page;
}

const page = await open(1440, 900, "light");
const replay = start("replay", "--server", `127.0.0.1:${port}`, ...REPLAY);
const ended = new Promise((resolve) => replay.on("exit", resolve));
const mapColours = () => page.evaluate(() => {
  const canvas = document.getElementById("page-map");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const counts = new Map();
  for (let at = 0; at < data.length; at += 4 * 7) {
    const colour = `${data[at]},${data[at + 1]},${data[at + 2]}`;
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  return [...counts].toSorted(([, a], [, b]) => b - a).map(([colour]) => colour).slice(0, 3).join(" ");
});
const curve = async () => {
  const button = page.locator("#classes td button").first();
  if ((await button.getAttribute("aria-expanded")) !== "true") await button.click();
  return page.locator("#curve .point").first().getAttribute("cy");
};
await until("a class has pages", async () => (await page.locator("#page-legend li").count()) > 0);
const firstColours = await mapColours();
const firstPoint = await until("the curve of the class has a point", curve);
check(true, `the map has colours (${firstColours}), and a curve its point`);
await until("cells of the map change their colour", async () => (await mapColours()) !== firstColours);
check(true, "cells of the map change their colour as classes get pages");
await until("the point of the curve moves", async () => {
  return (await page.locator("#curve .point").first().getAttribute("cy")) !== firstPoint;
});
check(true, "the point of the curve moves");
const hasFocus = await page.evaluate(() => document.activeElement?.closest("#classes button") !== null);
check(hasFocus, "the button of the class keeps the focus when the table is drawn again");
const mapWidth = () => page.evaluate(() => document.getElementById("page-map").clientWidth);
const firstWidth = await mapWidth();
await until("page moves are listed", async () => /→/.test(await page.locator("#plans").innerText()));
check(true, "page moves are listed with their reasons");
check((await mapWidth()) === firstWidth, `the map keeps its width of ${firstWidth} pixels`);
await until("a hot key is listed as text", async () => {
  await sendGets(port, SCRIPT_KEY);
  const names = await page.locator("#hot-keys code").allInnerTexts();
  return names.includes(SCRIPT_KEY);
});
const prefixes = await page.locator("#hot-prefixes code").allInnerTexts();
check(prefixes.includes("page"), `hot keys and prefixes are listed: ${prefixes.join(" ")}`);
check((await page.locator("#hot-keys-tables img").count()) === 0 && (await page.title()) === "slabwise",
  "a key with markup is only a text");
const hint = await page.evaluate(async () => {
  const { showHotKeys } = await import("/page/hot_keys.js");
  showHotKeys({ enabled: false, remedy: "start the server again", samples: 0, samples_dropped: 0, keys: [], prefixes: [] });
  return document.getElementById("hot-keys-title").parentElement.innerText;
});
check(/not sampled.*start the server again\.$/s.test(hint), `without samples there is a hint: ${hint.replaceAll("\n", " ")}`);
for (const theme of ["light", "dark"]) {
  for (const width of [1440, 390]) {
    const other = await open(width, 900, theme);
    await other.waitForSelector("#charts svg path");
    await other.waitForSelector("#memory td");
    const name = `dashboard-${theme}-${width}`;
    const widest = await other.evaluate(() => document.documentElement.scrollWidth);
    check(widest <= width, `${name}: the page is not wider than the window (${widest})`);
    await accessibility(other, name);
    await other.screenshot({ path: path.join(pictures, `${name}.png`), fullPage: true });
    await other.close();
  }
}
await ended;
await page.locator("details summary").click();
const agrees = async () => {
  const rows = await stats(port, "profile");
  const shown = (await page.locator("#what-if-table tr").allInnerTexts()).map((it) => it.split("\t").slice(1, 3).join(" is "));
  return [50, 200, 400].every((it) => {
    const predicted = (100 * Number(rows.get(`what_if:${it}`))).toFixed(2);
    return shown.includes(`${it} % is ${predicted} %`);
  });
};
check(await until("the predictions agree with stats profile", agrees), "the predictions agree with stats profile");
check(errors.length === 0, `the pages report no errors: ${errors.join("; ")}`);
check([...hosts].join() === `127.0.0.1:${http}`, `all requests go to the server: ${[...hosts].join()}`);
await browser.close();
process.exit(failures.length === 0 ? 0 : 1);
