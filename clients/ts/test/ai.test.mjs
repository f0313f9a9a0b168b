// The sandbox session of the AI SDK, in a real sandbox: CORRAL_TEST_IMAGE is its image.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, test } from "node:test";

import * as api from "@corral-exec/client";
import { sandboxSession } from "@corral-exec/client/ai";
import { Gateway, decode, encode } from "./support.mjs";

const image = process.env.CORRAL_TEST_IMAGE;
const text = (stream) => new Response(stream).text();

describe("a session of the AI SDK", { skip: image ? false : "CORRAL_TEST_IMAGE is not set", timeout: 240_000 }, () => {
  let gateway;
  let corral;
  let session;

  before(async () => {
    gateway = await new Gateway("--sandbox", "all", "--image", image, "--workspace-access", "none").start();
    corral = gateway.client();
    session = sandboxSession(corral, { description: "a box" });
  });
  after(async () => {
    await corral.sandbox("main").remove();
    await gateway.close();
  });

  test("files, of a sandbox that is made for them", async () => {
    assert.equal(session.description, "a box");
    const data = randomBytes(1 << 20);
    await session.writeBinaryFile({ path: "d/e/x", content: data });
    assert.ok(Buffer.from(await session.readBinaryFile({ path: "/workspace/d/e/x" })).equals(data));
    assert.ok(Buffer.from(await new Response(await session.readFile({ path: "d/e/x" })).arrayBuffer()).equals(data));
    await session.writeFile({ path: "s", content: new Blob(["a\n", "b\r\n", "c"]).stream() });
    assert.equal(await session.readTextFile({ path: "s" }), "a\nb\r\nc");
    assert.equal(await session.readTextFile({ path: "s", startLine: 2 }), "b\r\nc");
    assert.equal(await session.readTextFile({ path: "s", startLine: 2, endLine: 2 }), "b\r\n");
    assert.equal(await session.readTextFile({ path: "s", startLine: 3, endLine: 9 }), "c");
    await session.writeTextFile({ path: "s", content: "é" });
    assert.equal(await session.readTextFile({ path: "s", encoding: "utf-8" }), "é");
    assert.equal(await session.readTextFile({ path: "s", encoding: "latin1" }), "Ã©");
    await assert.rejects(session.writeTextFile({ path: "s", content: "é", encoding: "latin1" }), api.InvalidError);
    await assert.rejects(session.writeTextFile({ path: "d", content: "" }));
    for (const read of [session.readFile, session.readBinaryFile, session.readTextFile, session.stat, session.listDirectory]) {
      assert.equal(await read({ path: "none" }), null);
    }
    await session.run({ command: "ln -s e/x d/link; ln -s /dev/null d/null; ln -s loop d/loop" });
    assert.deepEqual(await session.stat({ path: "d/link" }), { type: "file", size: 1 << 20 });
    assert.equal((await session.stat({ path: "d/e" })).type, "directory");
    assert.equal((await session.stat({ path: "d/null" })).type, "other");
    await assert.rejects(session.stat({ path: "d/loop" }));
    const entries = await session.listDirectory({ path: "d" });
    assert.deepEqual(entries.map((e) => `${e.name} ${e.type}`).sort(), ["e directory", "link symlink", "loop symlink", "null symlink"]);
    await assert.rejects(session.listDirectory({ path: "s" }));
    assert.equal(await session.deleteFile({ path: "d/link" }), true);
    assert.equal(await session.deleteFile({ path: "d/link" }), false);
    assert.equal((await session.stat({ path: "d/e/x" })).size, 1 << 20);
    await session.run({ command: "mkdir empty" });
    await assert.rejects(session.deleteFile({ path: "empty" }), api.InvalidError);
  });

  test("run", async () => {
    const r = await session.run({ command: 'echo "$X"; pwd; echo err >&2; exit 3', workingDirectory: "/tmp", env: { X: "é" } });
    assert.deepEqual(r, { exitCode: 3, stdout: "é\n/tmp\n", stderr: "err\n" });
    assert.equal((await session.run({ command: "kill -9 $$" })).exitCode, 137);
    const reason = new Error("enough");
    const aborts = new AbortController();
    setTimeout(() => aborts.abort(reason), 300);
    await assert.rejects(session.run({ command: "echo aborted; sleep 60", abortSignal: aborts.signal }), (e) => e === reason);
    assert.deepEqual((await corral.sessions()).filter((s) => s.info.status === "running"), []);
  });

  test("spawn", async () => {
    const p = await session.spawn({ command: "read x; echo out $x; echo err >&2; cat", stdin: true });
    const writer = p.stdin.getWriter();
    await writer.write(encode("one\n"));
    const reader = p.stdout.getReader();
    assert.equal(decode((await reader.read()).value), "out one\n");
    await writer.write(encode("rest"));
    await writer.close();
    assert.deepEqual(await p.wait(), { exitCode: 0 });
    assert.equal(decode((await reader.read()).value), "rest");
    assert.equal((await reader.read()).done, true);
    assert.equal(await text(p.stderr), "err\n");
    assert.ok(p.pid > 0);

    const q = await session.spawn({ command: "cat; sleep 60" });
    assert.equal("stdin" in q, false);
    await q.kill();
    await q.kill();
    assert.ok((await q.wait()).exitCode > 128);

    const reason = new Error("enough");
    const aborts = new AbortController();
    const r = await session.spawn({ command: "sleep 60", abortSignal: aborts.signal });
    setTimeout(() => aborts.abort(reason), 200);
    await assert.rejects(r.wait(), (e) => e === reason);
    for (let i = 0; i < 100 && (await corral.sessions()).some((s) => s.info.status === "running"); i++) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    assert.deepEqual((await corral.sessions()).filter((s) => s.info.status === "running"), []);

    const large = await session.spawn({ command: "head -c 20000000 /dev/zero; echo end >&2" });
    assert.equal(await text(large.stderr), "end\n"); // also if nobody reads the other
    assert.equal((await new Response(large.stdout).arrayBuffer()).byteLength, 20_000_000);
  });
});
