"""What AsyncClient has beyond the scenarios: many streams, cancellation, the same methods as Client."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import resource
import socket
import tempfile
import threading
import time
import unittest
from typing import List
from urllib.parse import parse_qs, urlsplit

import corral

from .test_cut import OUTPUT, STATUS, Fake, answer, chunked, events


def files_open() -> int:
    return len(os.listdir("/proc/self/fd"))


class TestSameMethods(unittest.TestCase):
    def test_same_methods(self) -> None:
        for one, other in ((corral.Client, corral.AsyncClient), (corral.Session, corral.AsyncSession), (corral.Sandbox, corral.AsyncSandbox),
                           (corral.Files, corral.AsyncFiles), (corral.Stream, corral.AsyncStream), (corral.Events, corral.AsyncEvents)):
            def methods(of: type) -> "dict[str, list[str]]":
                return {name: list(inspect.signature(f).parameters) for name, f in inspect.getmembers(of, callable) if not name.startswith("_")}
            self.assertEqual(methods(one), methods(other))
            self.assertEqual(list(inspect.signature(one).parameters)[1:], list(inspect.signature(other).parameters)[1:] if one is corral.Client else [])


class TestAsyncCut(unittest.IsolatedAsyncioTestCase):
    async def test_stream_is_cut_at_every_byte(self) -> None:
        cut = [0]

        def reply(method: str, target: str, body: bytes) -> bytes:
            offset = int(parse_qs(urlsplit(target).query).get("offset", ["0"])[0])
            whole = chunked(events(offset, method == "POST"))
            at, cut[0] = cut[0], 1 << 30
            return whole[:at]

        client = corral.AsyncClient(socket=Fake(self, reply).path, retry=5)
        for at in range(0, len(chunked(events(0, True))) + 1, 5):  # Client is cut at each
            cut[0] = at
            text, data = "", b""
            async for event in client.stream("x"):
                text += event.text
                data += event.data
            self.assertEqual((data, text), (OUTPUT, "aé€😀\n\ufffd\ufffdend\n"), f"cut at {at}")

    async def test_answer_is_cut_at_every_byte(self) -> None:
        cut = [0]
        whole = answer(200, json.dumps(STATUS).encode())

        def reply(*_: object) -> bytes:
            at, cut[0] = cut[0], len(whole)
            return whole[:at]

        client = corral.AsyncClient(socket=Fake(self, reply).path, retry=5)
        for at in range(len(whole) + 1):
            cut[0] = at
            self.assertEqual((await client.session("s")).info, STATUS, f"cut at {at}")

    async def test_answers_that_are_not_http(self) -> None:
        for reply in (b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
                      b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"x" * 100_000, b"HTTP/1.1 99999999999999999999\r\n"):
            client = corral.AsyncClient(socket=Fake(self, lambda *_: reply).path, retry=0)
            with self.assertRaises(corral.UnavailableError):
                await client.sessions()

    async def test_events_go_on_after_a_cut(self) -> None:
        texts = [b"id: 7\nevent: corral.missed\ndata: {\"next\":7}\n\n: ping\nid: 8\nevent: exec.finished\ndata: {\"seq\":8}\n\nid: 9\ndata: {\"se",
                 b"id: 9\r\ndata: {\"seq\":\r\ndata: 9}\r\n\r\n"]

        def reply(method: str, target: str, body: bytes) -> bytes:
            n = len(fake.requests)
            whole = answer(200, texts[n - 1] + b" " * 9)
            return answer(200, texts[n - 1]) if n == 2 else whole[:-9]

        fake = Fake(self, reply)
        got = [e["seq"] async for e in corral.AsyncClient(socket=fake.path, retry=5).events(3, once=True)]
        self.assertEqual(got, [7, 8, 9])
        self.assertEqual([t for _, t, _ in fake.requests], ["/v1/events?after=3&once=true", "/v1/events?after=8&once=true"])


class TestMany(unittest.TestCase):
    def test_a_thousand_streams_in_one_thread(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        want = min(hard, 8192) if hard != resource.RLIM_INFINITY else 8192
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, want), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "s")

        async def many() -> None:
            speak = asyncio.Event()
            served = 0

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                nonlocal served
                served += 1
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                await speak.wait()
                body = events(0, True)
                writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
                writer.close()

            server = await asyncio.start_unix_server(serve, path, backlog=10)  # fewer than come
            client = corral.AsyncClient(socket=path)
            before, threads = files_open(), threading.active_count()
            tasks = [asyncio.ensure_future(client.run("x")) for _ in range(1000)]
            while served < 1000:
                await asyncio.sleep(0.01)
            self.assertGreaterEqual(files_open(), before + 2000)
            self.assertEqual(threading.active_count(), threads)
            begin = time.monotonic()
            for task in tasks[500:]:
                task.cancel()
            await asyncio.wait(tasks[500:])
            self.assertLess(time.monotonic() - begin, 2)
            await asyncio.sleep(0.01)
            self.assertLessEqual(files_open(), before + 1500)  # both ends of one half, and those of the server of the other
            speak.set()
            results = await asyncio.gather(*tasks[:500])
            self.assertEqual({r.output for r in results}, {OUTPUT})
            server.close()
            while files_open() >= before:
                await asyncio.sleep(0.01)

        asyncio.run(asyncio.wait_for(many(), 120))


class TestEnds(unittest.IsolatedAsyncioTestCase):
    async def deaf(self) -> str:
        """The path of a server that takes connections and says nothing."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "s")
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(path)
        listener.listen(1)
        return path

    async def test_silence_ends_a_call(self) -> None:
        client = corral.AsyncClient(socket=await self.deaf(), timeout=0.1, retry=0)
        with self.assertRaisesRegex(corral.UnavailableError, "nothing came for 0.1 seconds"):
            await client.sessions()

    async def test_cancel_while_it_connects(self) -> None:
        client = corral.AsyncClient(socket=await self.deaf())
        before = files_open()
        tasks: List["asyncio.Task[object]"] = [asyncio.ensure_future(client.sessions()) for _ in range(10)]  # more than it queues
        await asyncio.sleep(0.05)
        begin = time.monotonic()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self.assertLess(time.monotonic() - begin, 1)
        self.assertTrue(all(task.cancelled() for task in tasks))
        await asyncio.sleep(0.01)
        self.assertEqual(files_open(), before)

    async def test_close_ends_a_task_that_waits(self) -> None:
        fake = Fake(self, lambda method, *_: answer(200, json.dumps(STATUS).encode()))
        session = await corral.AsyncClient(socket=fake.path).session("s")
        session._transport.place.socket = await self.deaf()
        stream = session.log()
        waiting = asyncio.ensure_future(stream.__anext__())
        await asyncio.sleep(0.05)
        await stream.close()
        with self.assertRaises(StopAsyncIteration):
            await asyncio.wait_for(waiting, 5)
        self.assertEqual([e async for e in stream], [])

    async def test_a_stream_that_is_dropped_is_closed(self) -> None:
        line = b'{"type":"stdout","offset":0,"next":1,"text":"x"}\n'
        fake = Fake(self, lambda method, target, body: answer(200, json.dumps(STATUS).encode()) if "log" not in target else
                    b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + line)
        session = await corral.AsyncClient(socket=fake.path).session("s")
        before = files_open()
        async for event in session.log():
            self.assertEqual(event.text, "x")
            break
        gc.collect()
        await asyncio.sleep(0.05)
        self.assertLessEqual(files_open(), before)

    async def test_headers_and_addresses(self) -> None:
        for options in ({"agent": "a\nb"}, {"token": "a\r\nb"}, {"session": "\ud800"}):
            with self.assertRaises(corral.InvalidError):
                corral.AsyncClient(url="http://x", **options)
        with self.assertRaisesRegex(corral.InvalidError, "https"):
            corral.AsyncClient(url="http://x", fingerprint="00" * 32)
        for url in ("http://u:p@x", "http://x:port", "http://x?y", "https://"):
            with self.assertRaises(corral.InvalidError):
                corral.AsyncClient(url=url)
