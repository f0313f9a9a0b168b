// Answers that are cut, at any byte, by a gateway that is a script.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";

import * as api from "@corral-exec/client";
import { nodeFetch } from "@corral-exec/client/node";

const OUTPUT = Buffer.concat([Buffer.from("\ufeffaé€😀\n"), Buffer.from([0xff, 0xfe]), Buffer.from("end\n")]);
const STATUS = { sessionId: "s", status: "running", startedAt: "2026-01-01T00:00:00.5Z" };
const UNAVAILABLE = '{"error":{"code":"unavailable","message":"it stops"}}';

function events(offset, started) {
  const lines = started ? [{ type: "started", offset: 0, next: 0, session: STATUS }] : [];
  const cut = OUTPUT.indexOf(0xff);
  for (let [begin, end] of [[0, 6], [6, cut], [cut, cut + 2], [cut + 2, OUTPUT.length]]) {
    begin = Math.max(begin, offset);
    if (begin < end) {
      const data = OUTPUT.subarray(begin, end);
      const output = begin >= cut && end <= cut + 2 ? { type: "stderr", binary: data.toString("base64") } : { type: "stdout", text: data.toString() };
      lines.push({ type: "ping", offset: begin, next: begin }, { offset: begin, next: end, ...output });
    }
  }
  const at = OUTPUT.length;
  lines.push({ type: "exit", offset: at, next: at, exitCode: 0, signal: null, signalName: null, session: STATUS });
  return Buffer.from(lines.map((line) => JSON.stringify(line) + "\n").join(""));
}

function answer(status, body, ...headers) {
  const bytes = Buffer.from(body);
  const length = status === 204 ? [] : [`Content-Length: ${bytes.length}`];
  return Buffer.concat([Buffer.from([`HTTP/1.1 ${status} X`, "Content-Type: x", ...length, ...headers, "", ""].join("\r\n")), bytes]);
}

function chunked(body, size = 50) {
  const parts = [Buffer.from("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")];
  for (let i = 0; i < body.length; i += size) {
    const part = body.subarray(i, i + size);
    parts.push(Buffer.from(part.length.toString(16) + "\r\n"), part, Buffer.from("\r\n"));
  }
  return Buffer.concat([...parts, Buffer.from("0\r\n\r\n")]);
}

/** A server of which every answer is what reply returns for the method, target and body. */
async function serve(t, reply) {
  const requests = [];
  let connections = 0;
  const server = createServer((socket) => {
    connections++;
    let received = Buffer.alloc(0);
    socket.on("error", () => {});
    socket.on("data", (data) => {
      received = Buffer.concat([received, data]);
      const end = received.indexOf("\r\n\r\n");
      const head = received.subarray(0, Math.max(end, 0)).toString();
      const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0);
      if (end < 0 || received.length < end + 4 + length) {
        return;
      }
      const [method, target] = head.split(" ");
      const request = { method, target, body: received.subarray(end + 4).toString(), head };
      requests.push(request);
      socket.end(reply(request));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const client = (retry = 5, options = {}) => new api.Corral({ url: `http://127.0.0.1:${server.address().port}`, key: "k", retry, ...options });
  return { requests, client, connections: () => connections };
}

const offsetOf = (target) => Number(new URL(target, "http://x").searchParams.get("offset") ?? 0);

test("a stream is cut at every byte", { timeout: 120_000 }, async (t) => {
  const whole = chunked(events(0, true));
  await Promise.all(
    // Several at a time, since each waits before it tries again.
    [...Array(16).keys()].map(async (part) => {
      let cut = 0;
      const fake = await serve(t, ({ method, target }) => {
        const answer = chunked(events(offsetOf(target), method === "POST"));
        const at = cut;
        cut = Infinity;
        return answer.subarray(0, at);
      });
      const corral = fake.client();
      for (let at = part; at <= whole.length; at += 16) {
        cut = at;
        let text = "";
        const parts = [];
        for await (const event of corral.exec("x")) {
          text += event.text;
          parts.push(event.data);
        }
        assert.deepEqual(Buffer.concat(parts), OUTPUT, `cut at ${at}`);
        assert.equal(text, "\ufeffaé€😀\n\ufffd\ufffdend\n", `cut at ${at}`);
      }
    }),
  );
});

test("each request has a connection of its own", async (t) => {
  const fake = await serve(t, () => answer(200, '{"sessions":[]}'));
  const corral = fake.client();
  for (let i = 0; i < 3; i++) {
    await corral.sessions();
  }
  assert.equal(fake.connections(), 3);
  assert.match(fake.requests[0].head, /^connection: close\r?$/im);
  assert.match(fake.requests[0].head, /^authorization: Bearer k\r?$/im);
});

test("a start is repeated with its ID", async (t) => {
  const fake = await serve(t, () => (fake.requests.length < 3 ? "" : answer(201, JSON.stringify(STATUS))));
  await fake.client().start("x");
  const ids = fake.requests.map(({ body }) => JSON.parse(body).id);
  assert.deepEqual([ids.length, new Set(ids).size], [3, 1]);
});

test("what may be done twice is lost", async (t) => {
  const fake = await serve(t, ({ method }) => (method === "GET" ? answer(200, JSON.stringify(STATUS)) : ""));
  const corral = fake.client();
  const session = await corral.session("s");
  const calls = [() => session.signal("INT"), () => session.write("x"), () => corral.answer("a", "deny"), () => corral.tool("exec", { command: "x" })];
  for (const call of calls) {
    const before = fake.requests.length;
    await assert.rejects(call, api.LostError);
    assert.equal(fake.requests.length, before + 1);
  }
});

test("a kill whose answer is cut", async (t) => {
  const ended = answer(409, '{"error":{"code":"ended","message":"session s has ended"}}');
  const kills = ["", ended, ended];
  const fake = await serve(t, ({ method }) => (method === "GET" ? answer(200, JSON.stringify(STATUS)) : kills.shift()));
  const session = await fake.client().session("s");
  assert.deepEqual(await session.kill(), STATUS);
  await assert.rejects(() => session.kill(), api.EndedError);
});

const failure = (code, syscall) => Object.assign(new Error(`${syscall} ${code}`), { code, syscall });
const failures = (...errors) => Object.assign(new AggregateError(errors), { code: errors[0].code });

test("errors that also come after the gateway got the call", async (t) => {
  const fake = await serve(t, () => answer(200, JSON.stringify(STATUS)));
  let error;
  const corral = fake.client(5, {
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      if (init.method === "GET") {
        return response;
      }
      await response.arrayBuffer();
      throw error;
    },
  });
  const session = await corral.session("s");
  const calls = [() => session.signal("INT"), () => session.write("x"), () => corral.answer("a", "deny"), () => corral.tool("exec", { command: "x" })];
  const causes = [
    ...["ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "ECONNRESET"].map((code) => failure(code, "read")),
    ...["ETIMEDOUT", "ERR_SSL_WRONG_VERSION_NUMBER", "ERR_SSL_SSLV3_ALERT_BAD_RECORD_MAC", "ERR_TLS_SESSION_ATTACK", "NOT_A_CERT_CODE"].map((code) => failure(code)),
    failures(failure("ETIMEDOUT", "connect"), failure("ETIMEDOUT", "read")),
  ];
  for (const cause of causes) {
    for (error of [new TypeError("fetch failed", { cause }), cause]) {
      for (const call of calls) {
        const before = fake.requests.length;
        await assert.rejects(call, api.LostError, String(cause));
        assert.equal(fake.requests.length, before + 1, String(cause));
      }
    }
  }
});

test("errors that come before a call is sent", async (t) => {
  const fake = await serve(t, () => answer(200, JSON.stringify(STATUS)));
  const errors = [];
  const corral = fake.client(5, {
    fetch: async (url, init) => {
      const error = errors.pop();
      if (error !== undefined) {
        throw error;
      }
      return fetch(url, init);
    },
  });
  await corral.session("s");
  const causes = [
    ...["ECONNREFUSED", "ETIMEDOUT", "EHOSTUNREACH", "ENOENT"].map((code) => failure(code, "connect")),
    failure("EAI_AGAIN", "getaddrinfo"),
    failures(failure("ECONNREFUSED", "connect"), failure("ENETUNREACH", "connect")),
    ...["UND_ERR_CONNECT_TIMEOUT", "CERT_HAS_EXPIRED", "UNABLE_TO_VERIFY_LEAF_SIGNATURE", "DEPTH_ZERO_SELF_SIGNED_CERT", "ERR_TLS_CERT_ALTNAME_INVALID"].map((code) => failure(code)),
  ];
  for (const cause of causes) {
    for (const error of [new TypeError("fetch failed", { cause }), cause]) {
      const before = fake.requests.length;
      errors.push(error);
      await corral.tool("exec", { command: "x" });
      assert.equal(fake.requests.length, before + 1, String(cause));
    }
    errors.push(cause);
    await assert.rejects(fake.client(5, { fetch: () => Promise.reject(errors.pop()) }).tool("exec", {}), api.UnavailableError);
  }
});

test("input goes on where the gateway stopped", async (t) => {
  const fake = await serve(t, ({ method, body }) => {
    if (method === "GET") {
      return answer(200, JSON.stringify(STATUS));
    }
    if (fake.requests.length === 2) {
      return answer(503, JSON.stringify({ written: 2, ...JSON.parse(UNAVAILABLE) }), "Retry-After: 1");
    }
    return answer(200, JSON.stringify({ written: body.length }));
  });
  await (await fake.client().session("s")).write("abcdef");
  assert.deepEqual(fake.requests.slice(1).map(({ body }) => body), ["abcdef", "cdef"]);
});

test("unavailable without an end", async (t) => {
  const fake = await serve(t, () => answer(503, UNAVAILABLE, "Retry-After: 1"));
  await assert.rejects(fake.client(0.2).sessions(), (e) => e instanceof api.UnavailableError && e.message === "it stops" && e.retryAfter === 1);
  assert.ok(fake.requests.length > 2);
});

test("a pending approval, and a quota", async (t) => {
  let body = { error: { code: "approval-pending", message: "it waits", details: { approvalId: "calm-otter-12" } } };
  let reply = () => answer(403, JSON.stringify(body));
  const fake = await serve(t, () => reply());
  for (const call of [() => fake.client().run("x"), () => fake.client().start("x")]) {
    await assert.rejects(call, (e) => e instanceof api.ApprovalPendingError && e.approvalId === "calm-otter-12");
  }
  assert.equal(fake.requests.length, 2);
  body = { error: { code: "too-many", message: "no more" } };
  reply = () => answer(429, JSON.stringify(body), "Retry-After: 3");
  await assert.rejects(fake.client().run("x"), (e) => e instanceof api.TooManyError && e.retryAfter === 3);
});

test("foreign answers", async (t) => {
  for (const [status, kind] of [[404, api.NotFoundError], [502, api.LostError], [500, api.InternalError], [418, api.InvalidError]]) {
    const fake = await serve(t, () => answer(status, "<html>"));
    await assert.rejects(fake.client().sessions(), kind);
  }
  const fake = await serve(t, () => answer(200, "<html>"));
  await assert.rejects(fake.client().sessions(), api.InvalidError);
});

test("answers without a body", async (t) => {
  for (const [method, head] of [["HEAD", "200 X\r\nContent-Length: 5"], ["HEAD", "404 X\r\nTransfer-Encoding: chunked"], ["GET", "204 X"], ["GET", "205 X\r\nContent-Length: 0"], ["GET", "304 X\r\nContent-Length: 5"]]) {
    const fake = await serve(t, () => `HTTP/1.1 ${head}\r\n\r\n`);
    for (const options of [{}, { fetch: nodeFetch({}) }]) {
      const response = await fake.client(5, options).sandbox("main").fetch(8000, "/", { method });
      assert.deepEqual([response.status, await response.text()], [Number(head.slice(0, 3)), ""], `${method} ${head}`);
    }
  }
});

test("a status that no Response can have", async (t) => {
  const fake = await serve(t, () => answer(999, "x"));
  await assert.rejects(fake.client(5, { fetch: nodeFetch({}) }).sandbox("main").fetch(8000), api.UnavailableError);
});

test("events that make no sense", async (t) => {
  const lines = [
    '{"type":"stdout","offset":3,"next":4,"text":"x"}',
    '{"type":"stdout","offset":0,"next":4,"text":"x"}',
    '{"type":"stdout","offset":0,"next":1,"binary":"!"}',
    '{"type":"x","offset":2,"next":1}',
    '{"type":"x","offset":0,"next":1e300}',
    Buffer.from([0x22, 0xff, 0x22]),
    "[]", "{}", "null", "{",
    "x".repeat((4 << 20) + 1),
  ];
  for (const line of lines) {
    const body = Buffer.concat([Buffer.from(line), Buffer.from("\n")]);
    const fake = await serve(t, () => answer(200, fake.requests.length === 1 ? JSON.stringify(STATUS) : body));
    const session = await fake.client().session("s");
    await assert.rejects(session.log().next(), api.InternalError, String(line).slice(0, 60));
  }
});

test("events go on after a cut, in the middle of one too", async (t) => {
  const whole = 'id: 7\nevent: corral.missed\ndata: {"next":7}\n\n: ping\nid: 8\nevent: exec.finished\ndata: {"seq":8}\n\nid: 9\ndata: {"seq":\ndata: 9}\r\n\r\n';
  let cut = 0;
  const fake = await serve(t, ({ target }) => {
    const after = Number(new URL(target, "http://x").searchParams.get("after"));
    const rest = { 3: whole, 7: whole.slice(whole.indexOf(": ping")), 8: whole.slice(whole.indexOf("id: 9")), 9: "" }[after];
    const body = chunked(Buffer.from(rest));
    const at = cut;
    cut = Infinity;
    return body.subarray(0, at);
  });
  for (let at = 0; at <= chunked(Buffer.from(whole)).length; at++) {
    cut = at;
    const seen = [];
    for await (const event of fake.client().events({ after: 3, once: true })) {
      seen.push(event.seq);
    }
    assert.deepEqual(seen, [7, 8, 9], `cut at ${at}`);
  }
});

test("events of sessions that make no sense", async (t) => {
  for (const text of ["id: x\n\n", "id: -1\n\n", "data: {\n\n", 'event: corral.missed\ndata: {}\n\n', "x".repeat((16 << 20) + 1)]) {
    const fake = await serve(t, () => answer(200, text));
    await assert.rejects(fake.client().events().next(), api.InternalError, text.slice(0, 60));
  }
});

test("calls of files", async (t) => {
  const pages = [{ entries: [{ path: "/w/a" }], next: "a" }, { entries: [{ path: "/w/b" }] }];
  const fake = await serve(t, ({ method, target }) => {
    if (target.startsWith("/v1/sandboxes/main/files?") && method === "GET") {
      return answer(200, JSON.stringify(pages[target.includes("after") ? 1 : 0]));
    }
    if (method === "GET" && target.includes("content")) {
      return answer(200, Buffer.from([0x00, 0xff]));
    }
    return method === "POST" || method === "DELETE" ? answer(204, "") : answer(200, "{}");
  });
  const { files } = fake.client().sandbox("main");
  assert.deepEqual([...(await files.read("a b"))], [0x00, 0xff]);
  await files.write("f", "x", { mode: 0o640, parents: true });
  const paths = [];
  for await (const entry of files.list()) {
    paths.push(entry.path);
  }
  assert.deepEqual(paths, ["/w/a", "/w/b"]);
  await files.mkdir("d", { parents: true });
  await files.remove("d", { all: true });
  await files.stat("f");
  const base = "/v1/sandboxes/main/files";
  assert.deepEqual(fake.requests.map(({ method, target }) => [method, target]), [
    ["GET", base + "/content?path=a+b"],
    ["PUT", base + "/content?path=f&mode=640&parents=true"],
    ["GET", base + "?path=."],
    ["GET", base + "?path=.&after=a"],
    ["POST", base + "/directory?path=d&parents=true"],
    ["DELETE", base + "?path=d&all=true"],
    ["GET", base + "/stat?path=f"],
  ]);
});
