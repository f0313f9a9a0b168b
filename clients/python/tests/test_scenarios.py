"""The scenarios of e2e/clients/scenarios.md, with AsyncClient. What is beneath is shared with Client."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import signal
import subprocess
import threading
import time
import unittest
from typing import Any, Optional

import corral

from .support import Gateway, program

IMAGE = os.environ.get("CORRAL_TEST_IMAGE", "")


class Scenarios(unittest.IsolatedAsyncioTestCase):
    gateway: Gateway

    @classmethod
    def setUpClass(cls) -> None:
        cls.gateway = Gateway("--listen", "127.0.0.1:0").start()
        cls.addClassCleanup(cls.gateway.close)
        cls.gateway.await_ready()

    async def asyncSetUp(self) -> None:
        self.client = await self.enterAsync(self.gateway)

    async def enterAsync(self, gateway: Gateway, **options: Any) -> corral.AsyncClient:
        client = corral.AsyncClient(**{"socket": gateway.socket, **options})
        await client.__aenter__()
        self.addAsyncCleanup(client.close)
        return client

    async def test_scenario_start(self) -> None:
        r = await self.client.run("echo out; echo err >&2; exit 3")
        self.assertEqual((r.exit_code, r.stdout, r.stderr, r.ok, r.omitted), (3, b"out\n", b"err\n", False, 0))
        session = await self.client.start(["printf", "%s|", "a b", "$HOME"], env={"X": "1"})
        self.assertEqual((await session.result()).text, "a b|$HOME|")

    async def test_scenario_stream(self) -> None:
        events = [e async for e in self.client.stream("echo one; sleep 0.3; echo two >&2; sleep 0.3; echo three")]
        self.assertEqual([(e.type, e.text) for e in events], [
            ("started", ""), ("stdout", "one\n"), ("stderr", "two\n"), ("stdout", "three\n"), ("exit", "")])
        self.assertEqual([e.next for e in events], [0, 4, 8, 14, 14])

    async def test_scenario_exit(self) -> None:
        for code in (0, 1, 42, 255):
            self.assertEqual((await self.client.run(f"exit {code}")).exit_code, code)
        r = await self.client.run("kill -TERM $$")
        self.assertEqual((r.exit_code, r.signal, r.signal_name), (None, signal.SIGTERM, "SIGTERM"))
        session = await self.client.start("trap 'exit 7' INT; echo ready; while :; do sleep 0.05; done")
        async with session.log() as stream:
            self.assertEqual((await stream.__anext__()).text, "ready\n")
        await session.signal("INT")
        self.assertEqual((await session.wait(20))["exit"]["exitCode"], 7)

    async def test_scenario_stdin(self) -> None:
        data = random.randbytes(1 << 20)
        self.assertEqual((await self.client.run("cat", stdin=data)).stdout, data)
        session = await self.client.start("read x; echo got $x; cat", stdin=True)
        await session.write(b"one\n")
        async with session.log() as stream:
            self.assertEqual((await stream.__anext__()).text, "got one\n")
        await session.write(b"rest")
        await session.close_stdin()
        self.assertEqual((await session.result()).text, "got one\nrest")
        with self.assertRaises(corral.EndedError) as caught:
            await session.write(b"more")
        self.assertEqual(caught.exception.written, 0)

    async def test_scenario_terminal(self) -> None:
        session = await self.client.start("stty size; read x; stty size", tty={"rows": 10, "cols": 20})
        async with session.log() as stream:
            self.assertEqual((await stream.__anext__()).text, "10 20\r\n")
        await session.resize(30, 40)
        await session.write(b"\r")
        self.assertIn("30 40", (await session.result()).text)

    async def test_scenario_restart(self) -> None:
        gateway = Gateway().start()
        self.addCleanup(gateway.close)
        gateway.await_ready()
        gateway.settle()
        client = await self.enterAsync(gateway, retry=120)
        slow = "i=0; while [ $i -lt 4000 ]; do echo line $i é€😀; i=$((i+1)); [ $((i % 40)) -ne 0 ] || sleep 0.05; done"
        text, data, kills = "", b"", 0
        async for event in client.stream(slow):
            self.assertNotEqual(event.type, "gap")
            text += event.text
            data += event.data
            if len(data) > 20_000 * (kills + 1) and kills < 2:
                kills += 1
                assert gateway.process is not None
                gateway.process.kill()
                gateway.process.wait()
                gateway.start()
        self.assertEqual((kills, event.exit_code), (2, 0))
        self.assertEqual(text, "".join(f"line {i} é€😀\n" for i in range(4000)))
        self.assertEqual(data, text.encode())

    async def test_scenario_timeout(self) -> None:
        r = await self.client.run("echo begun; sleep 60", timeout=0.5, grace=0.1)
        self.assertEqual((r.text, r.ok, r.session["reason"]), ("begun\n", False, "timeout"))

    async def test_scenario_kill(self) -> None:
        session = await self.client.start("sleep 60 & echo $!; wait")
        async with session.log() as stream:
            child = int((await stream.__anext__()).text)
        self.assertEqual((await session.kill())["reason"], "killed")
        for _ in range(100):  # it was killed, and is reaped a moment later
            if not os.path.exists(f"/proc/{child}"):
                break
            await asyncio.sleep(0.05)
        self.assertFalse(os.path.exists(f"/proc/{child}"))

    async def test_scenario_attach(self) -> None:
        await self.client.start("echo one; read x; echo got $x", id="behind", stdin=True)
        other = await self.enterAsync(self.gateway)
        session = await other.session("behind")
        async with session.log() as stream:
            self.assertEqual((await stream.__anext__()).text, "one\n")
            offset = stream.offset
        await session.write(b"two\n")
        self.assertEqual([e.text async for e in session.log(offset)], ["got two\n", ""])

    async def test_scenario_approvals(self) -> None:
        async def ask(command: str) -> str:
            with self.assertRaises(corral.ApprovalPendingError) as caught:
                await self.client.run(command, host="gateway", security="allowlist", ask="always")
            return caught.exception.approval_id

        path = os.path.join(self.gateway.work, "approved")
        allowed, denied = await ask(f"echo yes >{path}"), await ask(f"echo no >{path}")
        self.assertLessEqual({allowed, denied}, {a["approvalId"] for a in await self.client.approvals(state="pending")})
        seen = [a["approvalId"] async for a in self.client.approval_changes(0, once=True)]
        self.assertLessEqual({allowed, denied}, set(seen))
        answered = await self.client.answer(allowed, "allow-once", by="alice")
        await (await self.client.session(answered["commandId"])).wait(30)
        self.assertEqual((await self.client.answer(denied, "deny", by="alice"))["state"], "denied")
        with self.assertRaises(corral.ConflictError):
            await self.client.answer(denied, "allow-once", by="bob")
        self.assertEqual((await self.client.run(f"cat {path}")).text, "yes\n")

    async def test_scenario_events(self) -> None:
        other = await self.enterAsync(self.gateway, agent="other")
        session = await self.client.start("echo done", notify_on_exit=True)
        theirs = await other.start("echo theirs", notify_on_exit=True)
        async with self.client.events(0) as events:
            async for event in events:
                self.assertNotEqual(event["sessionId"], theirs.id)
                if event["sessionId"] == session.id:
                    break
        self.assertEqual((event["type"], event["seq"]), ("exec.finished", events.after))
        self.assertIn("done", event["text"])
        after = event["seq"]
        self.assertEqual([e async for e in self.client.events(after, once=True)], [])
        async with other.events(0) as events:
            self.assertEqual((await events.__anext__())["sessionId"], theirs.id)
        async with self.client.events() as events:  # from now on
            waiting = asyncio.ensure_future(events.__anext__())
            while not waiting.done():
                await self.client.start("true", notify_on_exit=True)
                await asyncio.sleep(0.1)
            self.assertGreater(waiting.result()["seq"], after)

    async def test_scenario_agents(self) -> None:
        await self.client.start("true", id="mine")
        other = await self.enterAsync(self.gateway, agent="somebody")
        with self.assertRaises(corral.NotFoundError):
            await other.session("mine")
        self.assertNotIn("mine", [s.id for s in await other.sessions()])
        self.assertIn("mine", [s.id for s in await other.sessions(all_agents=True)])

    async def test_scenario_wrong_key(self) -> None:
        for token in ("x" * 32, "corralkey_" + "x" * 52, ""):
            client = await self.enterAsync(self.gateway, socket="", url=self.gateway.address(), token=token)
            with self.assertRaises(corral.UnauthorizedError) as caught:
                await client.run("true")
            self.assertEqual((caught.exception.status, caught.exception.code), (401, "unauthorized"))

    def key(self, name: str, *flags: str) -> str:
        """The secret of a new key."""
        return subprocess.run([program(), "keys", "create", name, *flags, "--state-dir", self.gateway.state],
                              check=True, capture_output=True, text=True).stdout.strip()

    async def test_scenario_role(self) -> None:
        viewer = await self.enterAsync(self.gateway, socket="", url=self.gateway.address(), token=self.key("watcher", "--role", "viewer"))
        await viewer.sessions()
        with self.assertRaises(corral.DeniedError) as caught:
            await viewer.run("true")
        self.assertEqual((caught.exception.status, caught.exception.code), (403, "denied"))

    async def test_scenario_quota(self) -> None:
        key = self.key("small", "--role", "agent", "--agent", "small", "--max-sessions", "1")
        client = await self.enterAsync(self.gateway, socket="", url=self.gateway.address(), token=key)
        session = await client.start("sleep 60")
        with self.assertRaises(corral.TooManyError) as caught:
            await client.run("true")
        self.assertEqual((caught.exception.status, caught.exception.code), (429, "too-many"))
        self.assertGreater(caught.exception.retry_after, 0)
        await session.kill()
        self.assertTrue((await client.run("true")).ok)

    async def test_scenario_gap(self) -> None:
        session = await self.client.start("head -c 3000000 /dev/zero", log={"head": 1000, "tail": 2000})
        await session.wait(60)
        events = [e async for e in session.log()]
        gaps = [e for e in events if e.type == "gap"]
        self.assertEqual(sum(len(e.data) for e in events) + sum(e.next - e.offset for e in gaps), 3_000_000)
        self.assertEqual(len(gaps), 1)
        self.assertGreater((await session.result()).omitted, 2_900_000)

    async def test_scenario_unicode(self) -> None:
        text = "\ufeffaé€😀 <&>\n"
        session = await self.client.start(["printf", "%s", text])
        await session.wait(20)
        for offset in range(len(text.encode()) + 1):
            events = [e async for e in session.log(offset)]
            self.assertEqual(b"".join(e.data for e in events), text.encode()[offset:])
            self.assertEqual("".join(e.text for e in events), text.encode()[offset:].decode(errors="replace"))
        halves = [e async for e in self.client.stream("printf '\\303'; sleep 0.3; printf '\\251|\\342\\202'; sleep 0.3; printf '\\254\\342'")]
        self.assertGreaterEqual(len(halves), 5)
        self.assertEqual("".join(e.text for e in halves), "é|€\ufffd")

    async def test_scenario_errors(self) -> None:
        with self.assertRaises(corral.NotFoundError) as caught:
            await self.client.session("there-is-none")
        self.assertEqual((caught.exception.code, caught.exception.status), ("not-found", 404))
        self.assertTrue(caught.exception.hint)
        with self.assertRaises(corral.BadDirectoryError):
            await self.client.run("true", workdir="/there/is/none")
        with self.assertRaises(corral.InvalidError):
            await self.client.run("")
        nobody = corral.AsyncClient(socket="/there/is/none.sock")
        with self.assertRaises(corral.UnavailableError) as away:
            await nobody.run("true")
        self.assertIn("corral gateway", away.exception.hint)

    async def test_scenario_tls(self) -> None:
        gateway = Gateway("--listen", "127.0.0.1:0", "--config", os.devnull)
        self.addCleanup(gateway.close)
        config = os.path.join(gateway.dir, "corral.json5")
        gateway.flags = ("--listen", "127.0.0.1:0", "--config", config)
        with open(config, "w", encoding="utf-8") as f:
            f.write("{ gateway: { tls: { self: true } } }")
        gateway.start()
        gateway.await_ready()
        with open(os.path.join(gateway.state, "gateway.json"), encoding="utf-8") as f:
            url = "https://" + json.load(f)["listen"][-1]
        with open(os.path.join(gateway.state, "gateway.token"), encoding="ascii") as f:
            token = f.read().strip()
        printed = subprocess.run(["openssl", "x509", "-in", os.path.join(gateway.state, "gateway.pem"), "-noout", "-fingerprint", "-sha256"],
                                 check=True, capture_output=True, text=True).stdout
        pinned = await self.enterAsync(gateway, socket="", url=url, token=token, fingerprint=printed.strip().split("=")[1])
        self.assertEqual((await pinned.run("echo over TLS")).text, "over TLS\n")
        for fingerprint, kind in (("00" * 32, corral.DeniedError), ("", corral.UnavailableError)):
            client = await self.enterAsync(gateway, socket="", url=url, token=token, fingerprint=fingerprint, retry=0)
            with self.assertRaises(kind):
                await client.run("true")

    async def test_scenario_concurrent(self) -> None:
        results = await asyncio.gather(*(self.client.run(f"echo {n}") for n in range(20)))
        self.assertEqual([r.text for r in results], [f"{n}\n" for n in range(20)])

    async def test_scenario_same_id(self) -> None:
        path = os.path.join(self.gateway.work, "once")
        for _ in range(2):
            self.assertEqual((await self.client.run(f"echo x >>{path}; cat {path}", id="once")).text, "x\n")
        with self.assertRaises(corral.ConflictError):
            await self.client.run("echo other", id="once")

    async def test_scenario_sessions(self) -> None:
        session = await self.client.start("sleep 60", id="sleeper")
        self.assertIn("sleeper", [s.id for s in await self.client.sessions()])
        with self.assertRaises(corral.RunningError):
            await session.remove()
        await session.remove(force=True)
        await session.remove()
        with self.assertRaises(corral.NotFoundError):
            await session.status()
        self.assertNotIn("sleeper", [s.id for s in await self.client.sessions()])

    async def test_scenario_cancel(self) -> None:
        session = await self.client.start("echo one; sleep 60")
        async with session.log() as stream:
            self.assertEqual((await stream.__anext__()).text, "one\n")
            open_before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
            for call in (session.wait(), stream.__anext__(), session.result(), self.client.run("sleep 60")):
                task = asyncio.ensure_future(call)
                await asyncio.sleep(0.2)
                begin = time.monotonic()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertLess(time.monotonic() - begin, 1)
            await asyncio.sleep(0)  # the connections close
            self.assertLess(len(os.listdir("/proc/self/fd")), open_before)
            self.assertEqual(threading.active_count(), threads)
            self.assertEqual((await session.status())["status"], "running")
            with self.assertRaises(TimeoutError):
                await session.wait(0.1)
            await session.kill()
            self.assertEqual((await stream.__anext__()).type, "exit")  # it goes on where it was


@unittest.skipUnless(IMAGE, "CORRAL_TEST_IMAGE is not set")
class SandboxScenarios(unittest.IsolatedAsyncioTestCase):
    gateway: Gateway

    @classmethod
    def setUpClass(cls) -> None:
        cls.gateway = Gateway("--sandbox", "all", "--image", IMAGE, "--workspace-access", "none").start()
        cls.addClassCleanup(cls.gateway.close)
        cls.addClassCleanup(lambda: corral.Client(socket=cls.gateway.socket).sandbox("main").remove())
        cls.gateway.await_ready()

    async def asyncSetUp(self) -> None:
        self.client = corral.AsyncClient(socket=self.gateway.socket)
        self.sandbox = self.client.sandbox("main")
        self.assertTrue((await self.client.run("true")).session["sandboxed"])

    async def test_scenario_files(self) -> None:
        data = random.randbytes(64 << 20)
        files = self.sandbox.files
        info = await files.write("d/é g", data, parents=True, mode=0o600)
        self.assertEqual((info["path"], info["size"]), ("/workspace/d/é g", 64 << 20))
        r = await self.client.run("sha256sum <'d/é g'")
        self.assertEqual(r.text[:64], hashlib.sha256(data).hexdigest())
        self.assertTrue(await files.read("/workspace/d/é g") == data)
        self.assertEqual([os.path.basename(e["path"]) async for e in files.list("d")], ["é g"])
        await files.remove("d", all=True)
        with self.assertRaises(corral.NotFoundError):
            await files.stat("d/é g")

    async def test_scenario_sandboxes(self) -> None:
        await self.sandbox.files.write("kept", b"kept\n")
        self.assertEqual([s["name"] for s in await self.client.sandboxes()], ["main"])
        self.assertEqual((await self.sandbox.info())["state"], "running")
        self.assertGreater((await self.sandbox.stats())["memory"], 0)
        self.assertTrue((await self.sandbox.recreate())["container"])
        self.assertEqual((await self.client.run("cat kept")).text, "kept\n")

    async def test_scenario_port(self) -> None:
        await self.sandbox.files.write("www/hello", b"hello from inside\n", parents=True)
        server = await self.client.start("exec busybox httpd -f -p 127.0.0.1:8080 -h www")
        got = await self.fetch(8080, "/hello?x=1")
        self.assertEqual((got.status, got.body), (200, b"hello from inside\n"))
        self.assertEqual((await self.sandbox.fetch(8080, "/none")).status, 404)
        self.assertEqual((await self.sandbox.fetch(8081)).status, 502)
        with self.assertRaises(corral.NotFoundError):  # no domain
            await self.sandbox.address(8080)
        await server.kill()

    async def fetch(self, port: int, path: str) -> corral.Fetched:
        got: Optional[corral.Fetched] = None
        for _ in range(100):
            got = await self.sandbox.fetch(port, path)
            if got.status != 502:
                break
            await asyncio.sleep(0.1)  # it does not listen yet
        assert got is not None
        return got
