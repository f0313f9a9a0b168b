// Servers that are no gateway, and gateways that answer early, late or wrongly.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";

import * as api from "@corral-exec/client";
import { nodeFetch } from "@corral-exec/client/node";


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
