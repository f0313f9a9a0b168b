// The gateway is killed, and comes back with the same state directory and port.

import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import * as api from "@corral-exec/client";
import { Gateway } from "./support.mjs";

// Numbered lines, in which a byte that is lost or doubled shows.
const LINES = 4000;
const SLOW = `i=0; while [ $i -lt ${LINES} ]; do echo line $i é€😀; i=$((i+1)); [ $((i % 40)) -ne 0 ] || sleep 0.05; done`;
const WANT = [...Array(LINES).keys()].map((i) => `line ${i} é€😀\n`).join("");

describe("a gateway that restarts", () => {
  let gateway;
  let corral;

  beforeEach(async () => {
    gateway = await new Gateway().start();
    corral = gateway.client();
    await corral.ready();
  });
  afterEach(() => gateway.close());

  // Reads a stream, and ends the gateway from time to time.
  async function follow(stream, ends) {
    try {
      return await read(stream, ends);
    } catch (e) {
      throw new Error(`${e.message}\n${gateway.said()}`, { cause: e });
    }
  }

  async function read(stream, ends) {
    const data = [];
    let text = "";
    let length = 0;
    let nextEnd = 20_000;
    for await (const event of stream) {
      data.push(event.data);
      text += event.text;
      length += event.data.length;
      assert.notEqual(event.type, "gap");
      if (length > nextEnd && ends.length > 0) {
        nextEnd += 15_000;
        await gateway[ends.pop()]();
        await gateway.start();
      }
      if (event.type === "exit") {
        assert.equal(event.exitCode, 0);
      }
    }
    assert.deepEqual(ends, []);
    assert.equal(Buffer.concat(data).toString(), text);
    return text;
  }

  test("killed in the middle of a stream", { timeout: 120_000 }, async () => {
    assert.equal((await follow(corral.exec(SLOW), ["kill", "kill"])) === WANT, true);
  });

  test("stopped in the middle of a stream", { timeout: 120_000 }, async () => {
    const session = await corral.start(SLOW);
    assert.equal((await follow(session.log(), ["stop"])) === WANT, true);
  });

  test("killed while run collects", { timeout: 120_000 }, async () => {
    const running = corral.run(SLOW);
    await sleep(1000);
    await gateway.kill();
    await gateway.start();
    const r = await running;
    assert.equal(r.text === WANT, true);
    assert.equal(r.omitted, 0);
  });

  test("calls wait for the gateway", { timeout: 120_000 }, async () => {
    const session = await corral.start("sleep 2; echo done", { id: "waiting" });
    const waiting = session.wait({ timeout: 60 });
    await sleep(300);
    await gateway.kill();
    const again = corral.run("echo again");
    await sleep(500);
    await gateway.start();
    assert.equal((await again).text, "again\n");
    assert.equal((await waiting).exit.exitCode, 0);
    assert.equal((await session.result()).text, "done\n");
  });

  test("the gateway stays away", { timeout: 60_000 }, async () => {
    const short = gateway.client({ retry: 0.5 });
    const session = await short.start("cat", { stdin: true });
    const stream = session.log();
    const event = stream.next();
    await gateway.kill();
    for (const call of [() => event, () => short.sessions(), () => session.write("x"), () => short.run("true"), () => session.wait()]) {
      await assert.rejects(call, api.UnavailableError);
    }
    await assert.rejects(corral.run("true", { signal: AbortSignal.timeout(200) }), { name: "TimeoutError" });
    await gateway.start();
    await session.kill();
  });
});
