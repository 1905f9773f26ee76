// Calls every operation of the npm package "memcached", a client. Argument: HOST:PORT.
"use strict";

const assert = require("node:assert/strict");
const { promisify } = require("node:util");
const { setTimeout: sleep } = require("node:timers/promises");
const Memcached = require("memcached");

const LARGE = Buffer.alloc(900_000, "0123456789abcdef\r\n\0\xff", "latin1");
const BINARY = Buffer.from("\r\n\0END\r\n\xff", "latin1");

const client = new Memcached(process.argv[2], { retries: 0, timeout: 10_000 });
const call = (name, ...args) => promisify(client[name]).call(client, ...args);

// Returns true if the server refuses the operation. The client reports "not stored" and "not found" as an error or as
// false, depending on the operation.
const isRefused = (name, ...args) =>
  call(name, ...args).then((result) => result === false, (error) => /not|exists/i.test(String(error)));

async function waitForMiss(key) {
  const deadline = Date.now() + 10_000;
  while ((await call("get", key)) !== undefined) {
    assert.ok(Date.now() < deadline, `${key} expires within 10 seconds`);
    await sleep(50);
  }
}

async function storing() {
  assert.equal(await call("set", "a", "1", 0), true);
  assert.equal(await call("get", "a"), "1");
  assert.equal(await call("get", "absent"), undefined);
  assert.ok(await isRefused("add", "a", "2", 0));
  assert.equal(await call("add", "b", "2", 0), true);
  assert.ok(await isRefused("replace", "absent", "x", 0));
  assert.equal(await call("replace", "b", "3", 0), true);
  assert.equal(await call("append", "b", "4"), true);
  assert.equal(await call("prepend", "b", "2"), true);
  assert.ok(await isRefused("append", "absent", "x"));
  assert.ok(await isRefused("prepend", "absent", "x"));
  assert.equal(await call("get", "b"), "234");
  assert.deepEqual({ ...(await call("getMulti", ["a", "b", "absent"])) }, { a: "1", b: "234" });
  assert.equal(await call("del", "b"), true);
  assert.ok(await isRefused("del", "b"));
  // The client stores the type of a value in the client flags of the item.
  for (const value of ["text", { nested: [1, 2] }, 7]) {
    await call("set", "typed", value, 0);
    assert.deepEqual(await call("get", "typed"), value);
  }
}

async function values() {
  for (const value of [BINARY, LARGE]) {
    assert.equal(await call("set", "v", value, 0), true);
    assert.deepEqual(await call("get", "v"), value);
  }
  assert.equal(await call("set", "v", "", 0), true);
  assert.equal(await call("get", "v"), "");
  for (const length of [1, 249, 250]) {
    const key = "k".repeat(length);
    assert.equal(await call("set", key, "x", 0), true);
    assert.equal(await call("get", key), "x");
  }
  const keys = Array.from({ length: 1000 }, (_, i) => `many${i}`);
  await Promise.all(keys.map((key) => call("set", key, key.repeat(20), 0)));
  const found = await call("getMulti", keys);
  for (const key of keys) assert.equal(found[key], key.repeat(20));
}

async function cas() {
  await call("set", "c", "1", 0);
  const found = await call("gets", "c");
  assert.equal(found.c, "1");
  assert.equal(await call("cas", "c", "2", found.cas, 0), true);
  assert.ok(await isRefused("cas", "c", "3", found.cas, 0));
  assert.equal(await call("get", "c"), "2");
}

async function arithmetic() {
  await call("set", "n", 10, 0);
  assert.equal(await call("incr", "n", 5), 15);
  assert.equal(await call("decr", "n", 6), 9);
  assert.equal(await call("decr", "n", 100), 0);
  assert.ok(await isRefused("incr", "absent", 1));
  await call("set", "word", "text", 0);
  await assert.rejects(() => call("incr", "word", 1));
}

async function expiry() {
  await call("set", "e", "1", 1);
  await waitForMiss("e");
  await call("set", "e", "1", 0);
  assert.equal(await call("touch", "e", 100), true);
  assert.equal(await call("get", "e"), "1");
  assert.equal(await call("touch", "e", 1), true);
  await waitForMiss("e");
  assert.ok(await isRefused("touch", "e", 1));
}

async function administration() {
  assert.ok((await call("version"))[0].version);
  assert.ok((await call("stats"))[0].curr_items > 0);
  assert.ok("maxbytes" in (await call("settings"))[0]);
  assert.ok(Object.keys((await call("slabs"))[0]).length > 0);
  assert.ok(Object.keys((await call("items"))[0]).length > 0);
  assert.deepEqual(await call("flush"), [true]);
  assert.equal(await call("get", "a"), undefined);
}

(async () => {
  for (const part of [storing, values, cas, arithmetic, expiry, administration]) await part();
})().then(
  () => client.end(),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
