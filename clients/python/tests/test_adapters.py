"""The adapters, in a real sandbox: CORRAL_TEST_IMAGE is its image."""

from __future__ import annotations

import asyncio
import os
import sys
import unittest

import corral

from .support import Gateway

try:
    import deepagents  # noqa: F401
except ImportError:
    sys.path.append(os.path.join(os.path.dirname(__file__), "published"))

from corral.adapters.deepagents import CorralBackend

IMAGE = os.environ.get("CORRAL_TEST_IMAGE", "")


@unittest.skipUnless(IMAGE, "CORRAL_TEST_IMAGE is not set")
class TestDeepAgents(unittest.TestCase):
    gateway: Gateway

    @classmethod
    def setUpClass(cls) -> None:
        cls.gateway = Gateway("--sandbox", "all", "--image", IMAGE, "--workspace-access", "none").start()
        cls.addClassCleanup(cls.gateway.close)
        cls.addClassCleanup(lambda: corral.Client(socket=cls.gateway.socket).sandbox("main").remove())
        cls.gateway.await_ready()

    def backend(self, **options: object) -> CorralBackend:
        return CorralBackend(socket=self.gateway.socket, **options)

    def test_execute(self) -> None:
        backend = self.backend(max_output=1000)
        self.assertEqual(backend.id, "main")
        r = backend.execute("echo out; sleep 0.3; echo err >&2; sleep 0.3; pwd; exit 3")
        self.assertEqual((r.output, r.exit_code, r.truncated), ("out\nerr\n/workspace\n", 3, False))
        self.assertEqual(backend.execute("kill -9 $$").exit_code, 137)
        r = backend.execute("head -c 5000 /dev/zero")
        self.assertEqual((len(r.output), r.truncated), (1000, True))
        r = backend.execute("echo begun; sleep 60", timeout=1)
        self.assertTrue(r.output.startswith("begun\n\n[ended after 1 seconds]"), r.output)
        self.assertNotEqual(r.exit_code, 0)
        r = backend.execute("")
        self.assertEqual(r.exit_code, 126)

    def test_files(self) -> None:
        backend = self.backend()
        data = os.urandom(1 << 20)
        up = backend.upload_files([("/workspace/d/x", data), ("/workspace/d", b""), ("/proc/none/x", b"")])
        self.assertEqual([r.path for r in up], ["/workspace/d/x", "/workspace/d", "/proc/none/x"])
        self.assertIsNone(up[0].error)
        self.assertTrue(up[1].error and up[2].error)
        down = backend.download_files(["/workspace/d/x", "/workspace/none", "/workspace/d"])
        self.assertEqual((down[0].content, down[0].error), (data, None))
        self.assertEqual((down[1].content, down[1].error), (None, "file_not_found"))
        self.assertTrue(down[2].error)

    def test_refused(self) -> None:
        with self.assertRaises(corral.UnavailableError):
            CorralBackend(socket="/there/is/none.sock").execute("true")

    def test_async(self) -> None:
        async def both() -> None:
            backend = self.backend()
            results = await asyncio.gather(*(backend.aexecute(f"sleep 0.3; echo {n}") for n in range(5)))
            self.assertEqual([r.output for r in results], [f"{n}\n" for n in range(5)])
            self.assertEqual([r.error for r in await backend.aupload_files([("/workspace/y", b"y")])], [None])
            self.assertEqual((await backend.adownload_files(["/workspace/y"]))[0].content, b"y")
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(backend.aexecute("sleep 60"), 0.3)

        asyncio.run(both())
