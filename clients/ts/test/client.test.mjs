import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import * as api from "@corral-exec/client";
import { Gateway, decode, encode } from "./support.mjs";

const MIXED = "printf 'a\\303\\251\\342\\202\\254\\n'; printf '\\377\\376' >&2; printf '\\360\\237\\230\\200 <&>'";
// In the order in which they are written; the two streams may come in another.
const MIXED_BYTES = Buffer.concat([Buffer.from("aé€\n"), Buffer.from([0xff, 0xfe]), Buffer.from("😀 <&>")]);

async function all(stream) {
  const events = [];
  for await (const event of stream) {
    events.push(event);
  }
  return events;
}

describe("a gateway", () => {
  let gateway;
  let corral;

  before(async () => {
    gateway = await new Gateway().start();
    corral = gateway.client();
  });
  after(() => gateway.close());

  test("run", async () => {
    const r = await corral.run("echo out; echo err >&2; exit 3");
    assert.deepEqual([r.exitCode, decode(r.stdout), decode(r.stderr), r.signal, r.ok, r.omitted], [3, "out\n", "err\n", null, false, 0]);
    assert.deepEqual(r.text.split("\n").sort(), ["", "err", "out"]);
    assert.equal(r.session.status, "completed");
  });

  test("run with arguments, variables and a directory", async () => {
    const r = await corral.run(["printf", "%s|", "a b", "$HOME", Uint8Array.of(0xff)], { env: { X: "1" } });
    assert.deepEqual(Buffer.from(r.stdout), Buffer.from("a b|$HOME|\xff|", "latin1"));
    assert.equal((await corral.run("pwd; echo $X", { env: { X: "é" }, workdir: "/" })).text, "/\né\n");
    const bytes = await corral.run("printf %s $X", { env: { X: Uint8Array.of(0xc3) } });
    assert.deepEqual([...bytes.stdout], [0xc3]);
  });

  test("run with input", async () => {
    const data = randomBytes(1 << 20);
    assert.ok(Buffer.from((await corral.run("cat", { stdin: data })).stdout).equals(data));
    assert.equal((await corral.run("cat", { stdin: "é€😀" })).text, "é€😀");
    assert.equal((await corral.run("exit 4", { stdin: data })).exitCode, 4);
  });

  test("run a command that a signal ends", async () => {
    const r = await corral.run("kill -TERM $$");
    assert.deepEqual([r.exitCode, r.signal, r.signalName], [null, 15, "SIGTERM"]);
  });

  test("maxOutput", async () => {
    const r = await corral.run("head -c 100000 /dev/zero", { maxOutput: 10 });
    assert.deepEqual([r.output.length, r.omitted], [10, 99990]);
    assert.equal((await corral.run("printf ab€€", { maxOutput: 7 })).text, "ab€");
  });

  test("a gap", async () => {
    const r = await corral.run("head -c 3000000 /dev/zero", { log: { head: 1000, tail: 2000 } });
    assert.equal(r.output.length + r.omitted, 3000000);
  });

  test("exec, and input while it runs", async () => {
    const stream = corral.exec("echo one; read x; echo got $x", { stdin: true, id: "talk" });
    const next = async () => (await stream.next()).value;
    assert.equal((await next()).type, "started");
    assert.equal(stream.session.sessionId, "talk");
    assert.equal((await next()).text, "one\n");
    await (await corral.session("talk")).write("two\n");
    assert.equal((await next()).text, "got two\n");
    const exit = await next();
    assert.deepEqual([exit.type, exit.exitCode], ["exit", 0]);
    assert.equal((await stream.next()).done, true);
  });

  test("the same ID runs once", async () => {
    const path = join(gateway.work, "once");
    for (let i = 0; i < 2; i++) {
      assert.equal((await corral.run(`echo x >>${path}; cat ${path}`, { id: "once" })).text, "x\n");
    }
    await assert.rejects(corral.run("echo other", { id: "once" }), api.ConflictError);
  });

  test("text of characters that come in two halves", async () => {
    const r = await all(corral.exec("printf '\\303'; sleep 0.5; printf '\\251|\\342\\202'; sleep 0.5; printf '\\254\\342'"));
    assert.equal(r.map((e) => e.text).join(""), "é|€\ufffd");
    assert.ok(r.filter((e) => e.type === "stdout").length >= 3, "the halves came together");
    assert.deepEqual(Buffer.concat(r.map((e) => e.data)), Buffer.from([0xc3, 0xa9, 0x7c, 0xe2, 0x82, 0xac, 0xe2]));
  });

  test("the log from every offset", async () => {
    const session = await corral.start(MIXED);
    await session.wait();
    const { output, stderr } = await session.result();
    const whole = Buffer.from(output);
    assert.deepEqual([whole.length, ...stderr], [MIXED_BYTES.length, 0xff, 0xfe]);
    for (let offset = 0; offset <= MIXED_BYTES.length; offset++) {
      const events = await all(session.log({ offset }));
      assert.deepEqual(Buffer.concat(events.map((e) => e.data)), whole.subarray(offset), `from ${offset}`);
      assert.equal(events.at(-1).type, "exit");
    }
  });

  test("the log without follow, and with a limit", async () => {
    const session = await corral.start("echo 12345; sleep 60");
    while ((await session.status()).outputBytes < 6) {}
    const events = await all(session.log({ follow: false, offset: 1 }));
    assert.deepEqual(events.map((e) => [e.type, e.text]), [["stdout", "2345\n"], ["pause", ""]]);
    assert.equal((await all(session.log({ follow: false, limit: 2 })))[0].text, "12");
    await session.remove({ force: true });
  });

  test("large output, of characters and of bytes", async () => {
    const r = await corral.run("yes 'aé€😀' | head -c 5000000");
    assert.equal(r.text.replaceAll("aé€😀\n", "").length < 12, true);
    assert.equal(r.output.length, 5000000);
    const path = join(gateway.work, "random");
    const sum = (await corral.run(`head -c 3000000 /dev/urandom >${path}; sha256sum <${path}`)).text.slice(0, 64);
    const bytes = (await corral.run(`cat ${path}`)).output;
    assert.equal(createHash("sha256").update(bytes).digest("hex"), sum);
  });

  test("sessions", async () => {
    const session = await corral.start("sleep 60", { id: "sleeper" });
    assert.equal((await session.status()).status, "running");
    assert.ok((await corral.sessions()).some((s) => s.id === "sleeper"));
    assert.ok((await corral.sessions({ allAgents: true })).some((s) => s.id === "sleeper"));
    await assert.rejects(session.wait({ timeout: 0.1 }), api.StillRunningError);
    await assert.rejects(session.remove(), api.RunningError);
    await session.signal("INT");
    assert.equal((await session.wait({ timeout: 20 })).exit.signalName, "SIGINT");
    await assert.rejects(session.signal("INT"), api.EndedError);
    await session.remove();
    await session.remove();
    await assert.rejects(session.status(), api.NotFoundError);
    assert.equal((await (await corral.start("sleep 60")).kill()).reason, "killed");
  });

  test("input that the command does not take", async () => {
    const session = await corral.start("cat", { stdin: true });
    await session.write(encode("x"));
    await session.closeStdin();
    assert.equal((await session.result()).text, "x");
    await assert.rejects(session.write("more"), (e) => e instanceof api.EndedError && e.written === 0);
  });

  test("a terminal", async () => {
    const session = await corral.start("stty size; read x; stty size", { tty: { rows: 10, cols: 20 } });
    const stream = session.log();
    assert.equal((await stream.next()).value.text, "10 20\r\n");
    await session.resize(30, 40);
    await session.write("\r");
    await stream.close();
    assert.match((await session.result()).text, /30 40/);
  });

  test("errors", async () => {
    await assert.rejects(corral.session("there-is-none"), (e) => {
      assert.ok(e instanceof api.NotFoundError && e instanceof api.CorralError);
      assert.deepEqual([e.code, e.status, e.name], ["not-found", 404, "NotFoundError"]);
      assert.match(e.message, /there-is-none/);
      return true;
    });
    await assert.rejects(corral.run("true", { workdir: "/there/is/none" }), api.BadDirectoryError);
    await assert.rejects(corral.run(""), api.InvalidError);
    await assert.rejects(corral.run("true", { cwd: "/" }), api.InvalidError);
    await assert.rejects(corral.run("echo \ud800"), api.InvalidError);
    await assert.rejects(corral.session(".."), api.InvalidError);
    await assert.rejects(corral.nodes(), api.NotFoundError);
    await assert.rejects(gateway.client({ key: "x".repeat(32) }).sessions(), api.UnauthorizedError);
    await assert.rejects(gateway.client({ key: "" }).run("true"), api.UnauthorizedError);
  });

  test("another agent", async () => {
    await corral.start("true", { id: "mine" });
    await assert.rejects(gateway.client({ agent: "other" }).session("mine"), api.NotFoundError);
  });

  test("lists, tools and explanations", async () => {
    await corral.ready();
    assert.deepEqual(await corral.sandboxes(), []);
    assert.equal((await corral.explain("true")).route.host, "gateway");
    assert.equal((await corral.tool("exec", { command: "echo hi" })).stdout, "hi\n");
    assert.equal((await Promise.all([...Array(10).keys()].map((n) => corral.run(`echo ${n}`)))).map((r) => r.text).join(""), "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
  });

  test("approvals", async () => {
    const path = join(gateway.work, "approved");
    const options = { host: "gateway", security: "allowlist", ask: "always" };
    const asked = await corral.run(`echo yes >${path}`, options).catch((e) => e);
    assert.ok(asked instanceof api.ApprovalPendingError, String(asked));
    const pending = await corral.approvals({ state: "pending" });
    assert.deepEqual(pending.map((a) => a.approvalId), [asked.approvalId]);
    assert.equal((await corral.approval(asked.approvalId)).state, "pending");
    const seen = [];
    for await (const a of corral.approvalChanges({ after: 0, once: true })) {
      seen.push([a.approvalId, a.state]);
    }
    assert.deepEqual(seen, [[asked.approvalId, "pending"]]);
    const answered = await corral.answer(asked.approvalId, "allow-once", { by: "alice" });
    await (await corral.session(answered.commandId)).wait({ timeout: 30 });
    assert.equal((await corral.run(`cat ${path}`)).text, "yes\n");
    await assert.rejects(corral.answer(asked.approvalId, "deny"), api.ConflictError);
    await assert.rejects(corral.run("echo no", options), api.ApprovalPendingError);
    assert.equal((await corral.denyAll({ by: "alice" })).length, 1);
    await assert.rejects(corral.approval("calm-otter-12"), api.NotFoundError);
  });

  test("abort", { timeout: 30_000 }, async () => {
    const aborts = new AbortController();
    const reason = new Error("enough");
    const seen = [];
    const reading = (async () => {
      for await (const event of corral.exec("echo one; sleep 60", { id: "aborted", signal: aborts.signal })) {
        seen.push(event.text);
        if (event.text === "one\n") {
          setTimeout(() => aborts.abort(reason), 50);
        }
      }
    })();
    await assert.rejects(reading, (e) => e === reason);
    assert.deepEqual(seen, ["", "one\n"]);
    const session = await corral.session("aborted");
    assert.equal((await session.status()).status, "running");
    await assert.rejects(session.wait({ signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
    await assert.rejects(corral.run("sleep 60", { signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
    const already = { signal: AbortSignal.abort(reason) };
    for (const call of [() => corral.sessions(already), () => corral.run("true", already), () => session.write("x", already), () => session.log(already).next()]) {
      await assert.rejects(call, (e) => e === reason);
    }
    const stream = session.log({ offset: 4 });
    const waiting = stream.next();
    setTimeout(() => stream.close(), 50);
    assert.equal((await waiting).done, true);
    for await (const event of session.log()) {
      assert.equal(event.text, "one\n");
      break;
    }
    await session.kill();
  });
});

describe("no gateway", () => {
  test("fails at once", { timeout: 5000 }, async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address();
    server.close();
    const corral = new api.Corral({ url: `http://127.0.0.1:${port}` });
    for (const call of [() => corral.sessions(), () => corral.run("true"), () => corral.start("true")]) {
      await assert.rejects(call, (e) => e instanceof api.UnavailableError && /address/.test(e.hint));
    }
  });

  test("bad addresses", () => {
    for (const url of ["localhost:7777", "ftp://x", "http://", "", "http://u:p@x"]) {
      assert.throws(() => new api.Corral({ url }), api.InvalidError);
    }
    assert.throws(() => new api.Corral({ url: "http://x", agent: "a\nb" }), api.InvalidError);
  });
});
