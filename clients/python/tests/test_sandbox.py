"""Files of a real sandbox, where there is an engine: CORRAL_TEST_IMAGE is its image."""

from __future__ import annotations

import os
import unittest

import corral

from .support import Gateway

IMAGE = os.environ.get("CORRAL_TEST_IMAGE", "")


@unittest.skipUnless(IMAGE, "CORRAL_TEST_IMAGE is not set")
class TestSandbox(unittest.TestCase):
    def test_files(self) -> None:
        gateway = Gateway("--sandbox", "all", "--image", IMAGE, "--workspace-access", "none").start()
        self.addCleanup(gateway.close)
        gateway.await_ready()
        client = corral.Client(socket=gateway.socket)
        self.addCleanup(client.sandbox("main").remove)
        result = client.run("echo hello >f; echo in $PWD")
        self.assertEqual((result.text, result.session["sandboxed"]), ("in /workspace\n", True))
        self.assertEqual([s["name"] for s in client.sandboxes()], ["main"])
        sandbox = client.sandbox("main")
        self.assertEqual(sandbox.files.read("f"), b"hello\n")
        self.assertEqual(sandbox.files.read("f", offset=1, limit=2), b"el")
        data = os.urandom(1 << 20)
        sandbox.files.write("d/g", data, parents=True, mode=0o600)
        self.assertEqual(sandbox.files.read("/workspace/d/g"), data)
        self.assertEqual(client.run("wc -c <d/g").text.strip(), str(1 << 20))
        self.assertEqual(sorted(os.path.basename(e["path"]) for e in sandbox.files.list()), ["d", "f"])
        with self.assertRaises(corral.ConflictError):
            sandbox.files.write("f", b"", new=True)
        sandbox.files.remove("d", all=True)
        with self.assertRaises(corral.NotFoundError):
            sandbox.files.stat("d/g")
        self.assertIn("state", sandbox.info())
        sandbox.recreate()
        self.assertEqual(client.run("cat f").text, "hello\n")
