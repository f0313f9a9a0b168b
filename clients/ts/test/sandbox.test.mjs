// Files of a real sandbox, where there is an engine: CORRAL_TEST_IMAGE is its image.

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { basename } from "node:path";
import { test } from "node:test";

import * as api from "@corral-exec/client";
import { Gateway, decode } from "./support.mjs";

const image = process.env.CORRAL_TEST_IMAGE;

test("files of a sandbox", { skip: image ? false : "CORRAL_TEST_IMAGE is not set", timeout: 240_000 }, async (t) => {
  const gateway = await new Gateway("--sandbox", "all", "--image", image, "--workspace-access", "none").start();
  t.after(() => gateway.close());
  const corral = gateway.client();
  const sandbox = corral.sandbox("main");
  try {
    const result = await corral.run("echo hello >f; echo in $PWD");
    assert.deepEqual([result.text, result.session.sandboxed], ["in /workspace\n", true]);
    assert.deepEqual((await corral.sandboxes()).map((s) => s.name), ["main"]);
    const { files } = sandbox;
    assert.equal(decode(await files.read("f")), "hello\n");
    assert.equal(decode(await files.read("f", { offset: 1, limit: 2 })), "el");

    const data = randomBytes(8 << 20);
    const info = await files.write("d/é g", data, { parents: true, mode: 0o600 });
    assert.deepEqual([info.path, info.size], ["/workspace/d/é g", 8 << 20]);
    assert.ok(Buffer.from(await files.read("/workspace/d/é g")).equals(data));
    const sum = createHash("sha256").update(data).digest("hex");
    assert.equal((await corral.run("sha256sum <'d/é g'")).text.slice(0, 64), sum);
    assert.equal((await files.stat("d/é g")).type, "file");

    const names = [];
    for await (const entry of files.list()) {
      names.push(basename(entry.path));
    }
    assert.deepEqual(names.sort(), ["d", "f"]);
    await files.mkdir("e/f", { parents: true });
    assert.equal((await files.stat("e/f")).type, "directory");
    await assert.rejects(files.write("f", "", { new: true }), api.ConflictError);
    await files.remove("d", { all: true });
    await assert.rejects(files.stat("d/é g"), api.NotFoundError);
    assert.ok("state" in (await sandbox.info()));
    await sandbox.recreate();
    assert.equal((await corral.run("cat f")).text, "hello\n");
  } finally {
    await sandbox.remove();
  }
});
