// Calls every operation of the npm package "memjs", a client of the binary protocol.
// Arguments: HOST:PORT [USER PASSWORD].
"use strict";

const assert = require("node:assert/strict");
const { setTimeout: sleep } = require("node:timers/promises");
const memjs = require("memjs");

const LARGE = Buffer.alloc(900_000, "0123456789abcdef\r\n\0\xff", "latin1");
const BINARY = Buffer.from("\r\n\0END\r\n\xff", "latin1");

const [server, username, password] = process.argv.slice(2);
const quiet = { log() {} };
const connect = (credentials) =>
  memjs.Client.create(server, { retries: 0, timeout: 10, logger: quiet, ...credentials });
const client = connect({ username, password });

const get = async (key) => (await client.get(key)).value?.toString() ?? null;

async function waitForMiss(key) {
  const deadline = Date.now() + 10_000;
  while ((await get(key)) !== null) {
    assert.ok(Date.now() < deadline, `${key} expires within 10 seconds`);
    await sleep(50);
  }
}

async function storing() {
  await client.flush();
  assert.equal(await client.set("a", "1", {}), true);
  assert.equal(await get("a"), "1");
  assert.equal(await get("absent"), null);
  assert.equal(await client.add("a", "2", {}), false);
  assert.equal(await client.add("b", "2", {}), true);
  assert.equal(await client.replace("absent", "x", {}), false);
  assert.equal(await client.replace("b", "3", {}), true);
  assert.equal(await client.append("b", "4"), true);
  assert.equal(await client.prepend("b", "2"), true);
  await assert.rejects(() => client.append("absent", "x"));
  await assert.rejects(() => client.prepend("absent", "x"));
  // The prepend of this client sends an append to the server, so the value is 342 and not 234.
  assert.equal(await get("b"), "342");
  assert.equal(await client.delete("b"), true);
  assert.equal(await client.delete("b"), false);
}

async function values() {
  for (const value of [BINARY, LARGE, Buffer.alloc(0)]) {
    assert.equal(await client.set("v", value, {}), true);
    assert.deepEqual((await client.get("v")).value, value);
  }
  for (const length of [1, 249, 250]) {
    const key = "k".repeat(length);
    assert.equal(await client.set(key, "x", {}), true);
    assert.equal(await get(key), "x");
  }
  const keys = Array.from({ length: 1000 }, (_, i) => `many${i}`);
  await Promise.all(keys.map((key) => client.set(key, key.repeat(20), {})));
  const found = await Promise.all(keys.map(get));
  keys.forEach((key, i) => assert.equal(found[i], key.repeat(20)));
}

async function arithmetic() {
  await client.delete("n");
  assert.equal((await client.increment("n", 5, { initial: 10 })).value, 10);
  assert.equal((await client.increment("n", 5, {})).value, 15);
  assert.equal((await client.decrement("n", 6, {})).value, 9);
  assert.equal((await client.decrement("n", 100, {})).value, 0);
  await client.set("word", "text", {});
  await assert.rejects(() => client.increment("word", 1, {}));
}

async function expiry() {
  await client.set("e", "1", { expires: 1 });
  await waitForMiss("e");
  await client.set("e", "1", {});
  assert.equal(await client.touch("e", 100), true);
  assert.equal(await get("e"), "1");
  assert.equal(await client.touch("e", 1), true);
  await waitForMiss("e");
  assert.equal(await client.touch("e", 1), false);
}

async function administration() {
  const stats = (start) =>
    new Promise((done, fail) => start((error, _, found) => (error ? fail(error) : done(found))));
  assert.ok(Number((await stats((done) => client.stats(done))).curr_items) > 0);
  assert.ok("maxbytes" in (await stats((done) => client.statsWithKey("settings", done))));
  await stats((done) => client.resetStats(done));
  await client.flush();
  assert.equal(await get("a"), null);
}

// Checks that clients with a wrong password, an unknown user or no password read no value.
async function wrongPasswords() {
  await client.set("secret", "1", {});
  for (const wrong of [{ username, password: `${password}x` }, { username: "nobody", password }, {}]) {
    const stranger = connect({ ...wrong, timeout: 1 });
    const value = await stranger.get("secret").then((found) => found.value, () => null);
    assert.equal(value, null);
    stranger.close();
  }
}

(async () => {
  for (const part of [storing, values, arithmetic, expiry, administration]) await part();
  if (username) await wrongPasswords();
})().then(
  () => client.close(),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
