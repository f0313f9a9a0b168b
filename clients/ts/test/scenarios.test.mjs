// The scenarios of e2e/clients/scenarios.md.

import assert from "node:assert/strict";
import { X509Certificate, createHash, randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import * as api from "@corral-exec/client";
import { nodeFetch } from "@corral-exec/client/node";
import { Gateway, decode } from "./support.mjs";

const image = process.env.CORRAL_TEST_IMAGE;

async function all(stream) {
  const items = [];
  for await (const item of stream) {
    items.push(item);
  }
  return items;
}

const next = async (stream) => (await stream.next()).value;

describe("scenarios", { timeout: 300_000 }, () => {
  let gateway;
  let corral;

  before(async () => {
    gateway = await new Gateway().start();
    corral = gateway.client();
  });
  after(() => gateway.close());

  test("scenario start", async () => {
    const r = await corral.run("echo out; echo err >&2; exit 3");
    assert.deepEqual([r.exitCode, decode(r.stdout), decode(r.stderr), r.ok, r.omitted], [3, "out\n", "err\n", false, 0]);
    const session = await corral.start(["printf", "%s|", "a b", "$HOME"], { env: { X: "1" } });
    assert.equal((await session.result()).text, "a b|$HOME|");
  });

  test("scenario stream", async () => {
    const events = await all(corral.exec("echo one; sleep 0.3; echo two >&2; sleep 0.3; echo three"));
    assert.deepEqual(
      events.map((e) => [e.type, e.text, e.next]),
      [["started", "", 0], ["stdout", "one\n", 4], ["stderr", "two\n", 8], ["stdout", "three\n", 14], ["exit", "", 14]],
    );
  });

  test("scenario exit", async () => {
    for (const code of [0, 1, 42, 255]) {
      assert.equal((await corral.run(`exit ${code}`)).exitCode, code);
    }
    const r = await corral.run("kill -TERM $$");
    assert.deepEqual([r.exitCode, r.signal, r.signalName], [null, 15, "SIGTERM"]);
    const session = await corral.start("trap 'exit 7' INT; echo ready; while :; do sleep 0.05; done");
    const stream = session.log();
    assert.equal((await next(stream)).text, "ready\n");
    await stream.close();
    await session.signal("INT");
    assert.equal((await session.wait({ timeout: 20 })).exit.exitCode, 7);
  });

  test("scenario stdin", async () => {
    const data = randomBytes(1 << 20);
    assert.ok(Buffer.from((await corral.run("cat", { stdin: data })).stdout).equals(data));
    const session = await corral.start("read x; echo got $x; cat", { stdin: true });
    await session.write("one\n");
    const stream = session.log();
    assert.equal((await next(stream)).text, "got one\n");
    await stream.close();
    await session.write("rest");
    await session.closeStdin();
    assert.equal((await session.result()).text, "got one\nrest");
    await assert.rejects(session.write("more"), (e) => e instanceof api.EndedError && e.written === 0);
  });

  test("scenario terminal", async () => {
    const session = await corral.start("stty size; read x; stty size", { tty: { rows: 10, cols: 20 } });
    const stream = session.log();
    assert.equal((await next(stream)).text, "10 20\r\n");
    await stream.close();
    await session.resize(30, 40);
    await session.write("\r");
    assert.match((await session.result()).text, /30 40/);
  });

  test("scenario restart", async (t) => {
    const other = await new Gateway().start();
    t.after(() => other.close());
    const client = other.client({ retry: 120 });
    await client.run("true"); // the login shell was asked for PATH
    const slow = "i=0; while [ $i -lt 4000 ]; do echo line $i é€😀; i=$((i+1)); [ $((i % 40)) -ne 0 ] || sleep 0.05; done";
    const data = [];
    let [text, length, kills, last] = ["", 0, 0, undefined];
    for await (const event of client.exec(slow)) {
      last = event;
      assert.notEqual(event.type, "gap");
      text += event.text;
      data.push(event.data);
      length += event.data.length;
      if (length > 20_000 * (kills + 1) && kills < 2) {
        kills++;
        await other.kill();
        await other.start();
      }
    }
    assert.deepEqual([kills, last.exitCode], [2, 0]);
    const want = [...Array(4000).keys()].map((i) => `line ${i} é€😀\n`).join("");
    assert.ok(text === want);
    assert.ok(Buffer.concat(data).toString() === want);
  });

  test("scenario timeout", async () => {
    const r = await corral.run("echo begun; sleep 60", { timeout: 0.5, grace: 0.1 });
    assert.deepEqual([r.text, r.ok, r.session.reason], ["begun\n", false, "timeout"]);
  });

  test("scenario kill", async () => {
    const session = await corral.start("sleep 60 & echo $!; wait");
    const stream = session.log();
    const child = parseInt((await next(stream)).text, 10);
    await stream.close();
    assert.equal((await session.kill()).reason, "killed");
    for (let i = 0; i < 100 && existsSync(`/proc/${child}`); i++) {
      await sleep(50); // it was killed, and is reaped a moment later
    }
    assert.ok(child > 1 && !existsSync(`/proc/${child}`));
  });

  test("scenario attach", async () => {
    await corral.start("echo one; read x; echo got $x", { id: "behind", stdin: true });
    const session = await gateway.client().session("behind");
    const stream = session.log();
    assert.equal((await next(stream)).text, "one\n");
    const { offset } = stream;
    await stream.close();
    await session.write("two\n");
    assert.deepEqual((await all(session.log({ offset }))).map((e) => e.text), ["got two\n", ""]);
  });

  test("scenario approvals", async () => {
    const path = join(gateway.work, "approved");
    const ask = async (command) => {
      const e = await corral.run(command, { host: "gateway", security: "allowlist", ask: "always" }).catch((e) => e);
      assert.ok(e instanceof api.ApprovalPendingError, String(e));
      return e.approvalId;
    };
    const [allowed, denied] = [await ask(`echo yes >${path}`), await ask(`echo no >${path}`)];
    const pending = (await corral.approvals({ state: "pending" })).map((a) => a.approvalId);
    assert.deepEqual(pending.sort(), [allowed, denied].sort());
    const answered = await corral.answer(allowed, "allow-once", { by: "alice" });
    await (await corral.session(answered.commandId)).wait({ timeout: 30 });
    assert.equal((await corral.answer(denied, "deny", { by: "alice" })).state, "denied");
    await assert.rejects(corral.answer(denied, "allow-once", { by: "bob" }), api.ConflictError);
    assert.equal((await corral.run(`cat ${path}`)).text, "yes\n");
  });

  test("scenario events", async () => {
    const other = gateway.client({ agent: "other" });
    const session = await corral.start("echo done", { notifyOnExit: true });
    const theirs = await other.start("echo theirs", { notifyOnExit: true });
    let seen;
    for await (const event of corral.events({ after: 0 })) {
      assert.notEqual(event.sessionId, theirs.id);
      if (event.sessionId === session.id) {
        seen = event;
        break;
      }
    }
    assert.equal(seen.type, "exec.finished");
    assert.match(seen.text, /done/);
    assert.deepEqual((await all(corral.events({ after: seen.seq, once: true }))).filter((e) => e.seq <= seen.seq), []);
    const events = other.events({ after: 0 });
    assert.equal((await next(events)).sessionId, theirs.id);
    assert.ok(events.after > 0);
    await events.close();
    const fromNow = corral.events();
    let waiting = true;
    const first = next(fromNow).finally(() => (waiting = false));
    while (waiting) {
      await corral.start("true", { notifyOnExit: true });
      await sleep(100);
    }
    assert.ok((await first).seq > seen.seq);
    await fromNow.close();
  });

  test("scenario agents", async () => {
    await corral.start("true", { id: "mine" });
    const other = gateway.client({ agent: "somebody" });
    await assert.rejects(other.session("mine"), api.NotFoundError);
    assert.ok(!(await other.sessions()).some((s) => s.id === "mine"));
    assert.ok((await other.sessions({ allAgents: true })).some((s) => s.id === "mine"));
  });

  test("scenario wrong-key", async () => {
    for (const key of ["x".repeat(32), "corralkey_" + "x".repeat(52), ""]) {
      await assert.rejects(gateway.client({ key }).run("true"), (e) => e instanceof api.UnauthorizedError && e.status === 401 && e.code === "unauthorized");
    }
  });

  test("scenario role", async () => {
    const viewer = gateway.client({ key: gateway.createKey("watcher", "--role", "viewer") });
    await viewer.sessions();
    await assert.rejects(viewer.run("true"), (e) => e instanceof api.DeniedError && e.status === 403 && e.code === "denied");
  });

  test("scenario quota", async () => {
    const client = gateway.client({ key: gateway.createKey("small", "--role", "agent", "--agent", "small", "--max-sessions", "1") });
    const session = await client.start("sleep 60");
    await assert.rejects(client.run("true"), (e) => e instanceof api.TooManyError && e.status === 429 && e.code === "too-many" && e.retryAfter > 0);
    await session.kill();
    assert.ok((await client.run("true")).ok);
  });

  test("scenario gap", async () => {
    const session = await corral.start("head -c 3000000 /dev/zero", { log: { head: 1000, tail: 2000 } });
    await session.wait({ timeout: 60 });
    const events = await all(session.log());
    const gaps = events.filter((e) => e.type === "gap");
    const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
    assert.equal(sum(events.map((e) => e.data.length)) + sum(gaps.map((e) => e.next - e.offset)), 3_000_000);
    assert.equal(gaps.length, 1);
    assert.ok((await session.result()).omitted > 2_900_000);
  });

  test("scenario unicode", async () => {
    const text = "\ufeffaé€😀 <&>\n";
    const bytes = Buffer.from(text);
    const session = await corral.start(["printf", "%s", text]);
    await session.wait({ timeout: 20 });
    for (let offset = 0; offset <= bytes.length; offset++) {
      const events = await all(session.log({ offset }));
      assert.deepEqual(Buffer.concat(events.map((e) => e.data)), bytes.subarray(offset));
      assert.equal(events.map((e) => e.text).join(""), bytes.subarray(offset).toString());
    }
    const halves = await all(corral.exec("printf '\\303'; sleep 0.3; printf '\\251|\\342\\202'; sleep 0.3; printf '\\254\\342'"));
    assert.ok(halves.length >= 5);
    assert.equal(halves.map((e) => e.text).join(""), "é|€\ufffd");
  });

  test("scenario errors", async () => {
    await assert.rejects(corral.session("there-is-none"), (e) => e instanceof api.NotFoundError && e.code === "not-found" && e.status === 404 && e.hint !== "");
    await assert.rejects(corral.run("true", { workdir: "/there/is/none" }), api.BadDirectoryError);
    await assert.rejects(corral.run(""), api.InvalidError);
    const nobody = new api.Corral({ url: "http://localhost", fetch: nodeFetch({ socket: join(gateway.dir, "none.sock") }) });
    await assert.rejects(nobody.run("true"), (e) => e instanceof api.UnavailableError && e.hint !== "");
  });

  test("scenario tls", async (t) => {
    const secure = new Gateway();
    const config = join(secure.dir, "corral.json5");
    writeFileSync(config, "{ gateway: { tls: { self: true } } }");
    secure.flags = ["--config", config];
    secure.scheme = "https";
    await secure.start();
    t.after(() => secure.close());
    const fingerprint = new X509Certificate(readFileSync(join(secure.state, "gateway.pem"))).fingerprint256;
    const client = secure.client({ fetch: nodeFetch({ fingerprint }) });
    assert.equal((await client.run("echo over TLS")).text, "over TLS\n");
    const data = randomBytes(1 << 20);
    assert.ok(Buffer.from((await client.run("cat", { stdin: data })).stdout).equals(data));
    await assert.rejects(secure.client({ fetch: nodeFetch({ fingerprint: "00".repeat(32) }) }).run("true"), api.DeniedError);
    await assert.rejects(gateway.client({ fetch: nodeFetch({ fingerprint }) }).run("true"), api.InvalidError);
    await assert.rejects(secure.client({ fetch: nodeFetch({}), retry: 0 }).run("true"), api.UnavailableError);
    await assert.rejects(secure.client({ retry: 0 }).run("true"), api.UnavailableError);
    const local = new api.Corral({ url: "http://localhost", fetch: nodeFetch({ socket: join(secure.state, "gateway.sock") }) });
    assert.equal((await local.run("echo by the socket")).text, "by the socket\n");
    const aborted = client.run("sleep 60", { signal: AbortSignal.timeout(300) });
    await assert.rejects(aborted, { name: "TimeoutError" });
  });

  test("scenario concurrent", async () => {
    const results = await Promise.all([...Array(20).keys()].map((n) => corral.run(`echo ${n}`)));
    assert.deepEqual(results.map((r) => r.text), [...Array(20).keys()].map((n) => `${n}\n`));
  });

  test("scenario same-id", async () => {
    const path = join(gateway.work, "once");
    for (let i = 0; i < 2; i++) {
      assert.equal((await corral.run(`echo x >>${path}; cat ${path}`, { id: "once" })).text, "x\n");
    }
    await assert.rejects(corral.run("echo other", { id: "once" }), api.ConflictError);
  });

  test("scenario sessions", async () => {
    const session = await corral.start("sleep 60", { id: "sleeper" });
    assert.ok((await corral.sessions()).some((s) => s.id === "sleeper"));
    await assert.rejects(session.remove(), api.RunningError);
    await session.remove({ force: true });
    await session.remove();
    await assert.rejects(session.status(), api.NotFoundError);
    assert.ok(!(await corral.sessions()).some((s) => s.id === "sleeper"));
  });

  test("scenario cancel", async () => {
    const session = await corral.start("echo one; sleep 60");
    const calls = [
      (signal) => session.wait({ signal }),
      (signal) => session.result({ signal }),
      (signal) => session.log({ offset: 4, signal }).next(),
      (signal) => corral.run("sleep 60", { signal }),
    ];
    for (const call of calls) {
      const begin = Date.now();
      await assert.rejects(call(AbortSignal.timeout(200)), { name: "TimeoutError" });
      assert.ok(Date.now() - begin < 2000);
    }
    assert.equal((await session.status()).status, "running");
    await assert.rejects(session.wait({ timeout: 0.1 }), api.StillRunningError);
    await session.kill();
  });
});

describe("scenarios of a sandbox", { skip: image ? false : "CORRAL_TEST_IMAGE is not set", timeout: 300_000 }, () => {
  let gateway;
  let corral;
  let sandbox;

  before(async () => {
    gateway = await new Gateway("--sandbox", "all", "--image", image, "--workspace-access", "none").start();
    corral = gateway.client();
    sandbox = corral.sandbox("main");
    assert.equal((await corral.run("true")).session.sandboxed, true);
  });
  after(async () => {
    await sandbox.remove();
    await gateway.close();
  });

  test("scenario files", async () => {
    const data = randomBytes(64 << 20);
    const { files } = sandbox;
    const info = await files.write("d/é g", data, { parents: true, mode: 0o600 });
    assert.deepEqual([info.path, info.size], ["/workspace/d/é g", 64 << 20]);
    assert.equal((await corral.run("sha256sum <'d/é g'")).text.slice(0, 64), createHash("sha256").update(data).digest("hex"));
    assert.ok(Buffer.from(await files.read("/workspace/d/é g")).equals(data));
    assert.deepEqual((await all(files.list("d"))).map((e) => basename(e.path)), ["é g"]);
    await files.remove("d", { all: true });
    await assert.rejects(files.stat("d/é g"), api.NotFoundError);
  });

  test("scenario sandboxes", async () => {
    await sandbox.files.write("kept", "kept\n");
    assert.deepEqual((await corral.sandboxes()).map((s) => s.name), ["main"]);
    assert.equal((await sandbox.info()).state, "running");
    assert.ok((await sandbox.stats()).memory > 0);
    assert.ok((await sandbox.recreate()).container);
    assert.equal((await corral.run("cat kept")).text, "kept\n");
  });

  test("scenario port", async () => {
    await sandbox.files.write("www/hello", "hello from inside\n", { parents: true });
    const server = await corral.start("exec busybox httpd -f -p 127.0.0.1:8080 -h www");
    let got;
    for (let i = 0; i < 100; i++) {
      got = await sandbox.fetch(8080, "/hello?x=1");
      if (got.status !== 502) {
        break;
      }
      await got.body?.cancel();
      await sleep(100); // it does not listen yet
    }
    assert.deepEqual([got.status, await got.text()], [200, "hello from inside\n"]);
    assert.equal((await sandbox.fetch(8080, "/none")).status, 404);
    assert.equal((await sandbox.fetch(8081)).status, 502);
    await assert.rejects(sandbox.fetch(8080, "/../../../../sessions"), api.InvalidError);
    await assert.rejects(sandbox.fetch(8080, "/%2e%2e/%2e%2e/x"), api.InvalidError);
    await assert.rejects(sandbox.address(8080), api.NotFoundError); // no domain
    await server.kill();
  });
});
