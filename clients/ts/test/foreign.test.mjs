// Servers that are no gateway, and gateways that answer early, late or wrongly.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";

import * as api from "@corral-exec/client";
import { sandboxSession } from "@corral-exec/client/ai";
import { nodeFetch } from "@corral-exec/client/node";

const STATUS = { sessionId: "s", status: "running", startedAt: "2026-01-01T00:00:00.5Z" };
const STARTED = JSON.stringify({ type: "started", offset: 0, next: 0, session: STATUS }) + "\n";
const PING = '{"type":"ping","offset":0,"next":0}\n';
const EXIT = JSON.stringify({ type: "exit", offset: 0, next: 0, exitCode: 0, session: STATUS }) + "\n";

const answer = (status, body, ...headers) => [`HTTP/1.1 ${status} X`, `Content-Length: ${Buffer.byteLength(body)}`, ...headers, "", body].join("\r\n");

/** A server that calls reply for each connection, once something came. */
async function serve(t, reply) {
  const sockets = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
    socket.once("data", (data) => reply(socket, data.toString(), sockets.length));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
  });
  const client = (options = {}, scheme = "http") => new api.Corral({ url: `${scheme}://127.0.0.1:${server.address().port}`, key: "k", retry: 5, ...options });
  return { client, connections: () => sockets.length };
}

const FETCHES = [{}, { fetch: nodeFetch({}) }];

test("what listens there speaks no TLS", { timeout: 20_000 }, async (t) => {
  const fake = await serve(t, (socket) => socket.end(answer(400, "Bad Request")));
  for (const options of [...FETCHES, { fetch: nodeFetch({ fingerprint: "aa" }) }]) {
    const corral = fake.client(options, "https");
    for (const call of [() => corral.sessions(), () => corral.run("x"), () => corral.events().next()]) {
      const before = fake.connections();
      await assert.rejects(call, (e) => e instanceof api.UnavailableError && /no TLS/.test(e.message));
      assert.equal(fake.connections(), before + 1);
    }
  }
});

test("no error has the password of an address", () => {
  for (const url of ["https://me:secret@gateway.example", "http://gateway.example/?token=secret", "me:secret@gateway.example", "http://me:secret@[gateway"]) {
    assert.throws(() => new api.Corral({ url }), (e) => e instanceof api.InvalidError && !inspect(e).includes("secret"));
  }
});

test("what listens there does not speak HTTP", { timeout: 20_000 }, async (t) => {
  for (const said of ["SSH-2.0-x\r\n", Buffer.from([0x15, 3, 1, 0, 2, 2, 0x16])]) {
    const fake = await serve(t, (socket) => socket.end(said));
    for (const options of FETCHES) {
      const corral = fake.client(options);
      for (const call of [() => corral.sessions(), () => corral.run("x"), () => corral.events().next()]) {
        const before = fake.connections();
        await assert.rejects(call, api.UnavailableError);
        assert.equal(fake.connections(), before + 1);
      }
    }
  }
});

test("a redirect is no answer of a gateway", async (t) => {
  const fake = await serve(t, (socket) => socket.end(answer(302, "", "Location: https://elsewhere.example/")));
  for (const options of FETCHES) {
    const corral = fake.client(options);
    const box = corral.sandbox("main");
    for (const call of [() => corral.ready(), () => corral.sessions(), () => box.remove(), () => box.files.remove("x"), () => corral.run("x"), () => corral.events().next()]) {
      const before = fake.connections();
      await assert.rejects(call, (e) => e instanceof api.InvalidError && e.status === 302);
      assert.equal(fake.connections(), before + 1);
    }
  }
});

test("a quiet command outlives gateways", async (t) => {
  const fake = await serve(t, async (socket, _, nth) => {
    if (nth > 1 && nth < 5) {
      await sleep(400);
    }
    socket.end(answer(200, nth === 1 ? STARTED : nth < 5 ? PING : EXIT));
  });
  assert.equal((await fake.client({ retry: 0.3 }).run("x")).exitCode, 0);
});

test("an empty ID is none", async (t) => {
  const ids = new Set();
  const fake = await serve(t, (socket, request, nth) => {
    ids.add(JSON.parse(request.slice(request.indexOf("{"))).id);
    socket.end(nth < 2 ? "" : answer(201, JSON.stringify(STATUS)));
  });
  await fake.client({ fetch: nodeFetch({}) }).start("x", { id: "" });
  assert.equal(ids.size, 1);
  assert.ok(!ids.has(""));
});

test("a timeout without an end", async (t) => {
  const fake = await serve(t, async (socket) => {
    await sleep(100);
    socket.end(answer(200, '{"sessions":[]}'));
  });
  assert.deepEqual(await fake.client({ timeout: Infinity, retry: 0 }).sessions(), []);
});

test("a limit is one of all that comes", { timeout: 20_000 }, async (t) => {
  const asked = [];
  const fake = await serve(t, (socket, request) => {
    const query = new URL(request.split(" ")[1], "http://x").searchParams;
    if (!query.has("offset")) {
      socket.end(answer(200, JSON.stringify(STATUS)));
      return;
    }
    asked.push(`${query.get("offset")}+${query.get("limit")}`);
    const offset = Number(query.get("offset"));
    const next = offset + Math.min(Number(query.get("limit")) || 100, 3);
    const output = JSON.stringify({ type: "stdout", offset, next, text: "abcdefghijklmnop".slice(offset, next) }) + "\n";
    const pause = JSON.stringify({ type: "pause", offset: next, next }) + "\n";
    socket.end(answer(200, output + (asked.length === 2 ? pause : "")));
  });
  for (const follow of [true, false]) {
    const session = await fake.client().session("s");
    let text = "";
    for await (const event of session.log({ limit: 8, follow })) {
      text += event.text;
    }
    assert.equal(text, follow ? "abcdefgh" : "abcdef"); // without follow it pauses in the second answer
    assert.deepEqual(asked.splice(0), follow ? ["0+8", "3+5", "6+2"] : ["0+8", "3+5"]);
  }
});

test("a command that was aborted while it was started is ended", { timeout: 20_000 }, async (t) => {
  const asked = [];
  const fake = await serve(t, async (socket, request) => {
    asked.push(request.split(" ")[1]);
    await sleep(200);
    socket.end(answer(201, JSON.stringify(STATUS)));
  });
  const session = sandboxSession(fake.client());
  for (const call of [session.run, session.spawn]) {
    const reason = new Error("enough");
    const aborts = new AbortController();
    setTimeout(() => aborts.abort(reason), 100);
    await assert.rejects(call({ command: "x", abortSignal: aborts.signal }), (e) => e === reason);
    assert.deepEqual(asked, ["/v1/sessions"]); // at once
    await sleep(300);
    assert.deepEqual(asked.splice(0), ["/v1/sessions", "/v1/sessions/s/kill"]);
    await assert.rejects(call({ command: "x", abortSignal: aborts.signal }), (e) => e === reason);
    assert.deepEqual(asked, []);
  }
});
