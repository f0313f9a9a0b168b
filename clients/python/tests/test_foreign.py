"""Servers that are no gateway, and gateways that answer early, late or wrongly."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
import threading
import time
import unittest
from typing import List
from urllib.parse import parse_qs, urlsplit

import corral

from .test_cut import STATUS, Fake, answer

STARTED = json.dumps({"type": "started", "offset": 0, "next": 0, "session": STATUS}).encode() + b"\n"
EXIT = json.dumps({"type": "exit", "offset": 0, "next": 0, "exitCode": 0, "session": STATUS}).encode() + b"\n"
PING = b'{"type":"ping","offset":0,"next":0}\n'


class TestNoGateway(unittest.TestCase):
    def test_redirect(self) -> None:
        fake = Fake(self, lambda *_: answer(302, b"", "Location: https://elsewhere.example/login"))
        client = fake.client()
        for call in (client.ready, client.sessions, client.sandbox("main").remove, lambda: client.sandbox("main").files.remove("x"),
                     lambda: list(client.stream("x")), lambda: list(client.events(once=True))):
            before = len(fake.requests)
            with self.assertRaisesRegex(corral.InvalidError, "302"):
                call()
            self.assertEqual(len(fake.requests), before + 1)

    def test_no_json(self) -> None:
        for body in (b"<html>", b"[" * 100_000):
            with self.assertRaisesRegex(corral.InvalidError, "not JSON"):
                Fake(self, lambda *_: answer(200, body)).client().sessions()
            with self.assertRaisesRegex(corral.InvalidError, "not JSON"):
                Fake(self, lambda *_: answer(200, body)).client().sandbox("main").files.stat("x")

    def test_no_error_has_the_password_of_an_address(self) -> None:
        for url in ("https://me:secret@gateway.example", "http://gateway.example/?token=secret", "me:secret@gateway.example", "http://me:secret@[gateway"):
            with self.assertRaises(corral.InvalidError) as caught:
                corral.Client(url=url)
            self.assertNotIn("secret", str(caught.exception))

    def test_json_that_is_too_deep(self) -> None:
        deep = b"[" * 100_000
        for call, reply in (
            (lambda c: c.run("x"), answer(200, deep + b"\n")),
            (lambda c: c.run("x"), answer(500, deep)),
            (lambda c: list(c.events()), answer(200, b"data:" + deep + b"\n\n")),
        ):
            with self.assertRaises(corral.InternalError):
                call(Fake(self, lambda *_, reply=reply: reply).client())

    def test_no_http(self) -> None:
        for reply in (b"SSH-2.0-OpenSSH_9.2\r\n", b"\x15\x03\x01\x00\x02\x02\x16", b"-ERR unknown command\r\n", b"HTTP/1.1 hello\r\n\r\n"):
            fake = Fake(self, lambda *_: reply)
            for call in (fake.client().sessions, lambda: fake.client().run("x"), lambda: list(fake.client().events())):
                before = len(fake.requests)
                with self.assertRaisesRegex(corral.UnavailableError, "no answer of HTTP"):
                    call()
                self.assertEqual(len(fake.requests), before + 1)


class TestStarts(unittest.TestCase):
    def test_an_empty_id_is_none(self) -> None:
        fake = Fake(self, lambda *_: b"" if len(fake.requests) < 2 else answer(201, json.dumps(STATUS).encode()))
        fake.client().start("x", id="")
        ids = {json.loads(body)["id"] for _, _, body in fake.requests}
        self.assertEqual(len(ids), 1)
        self.assertNotIn("", ids)


class TestInput(unittest.TestCase):
    def test_end_of_input_is_repeated(self) -> None:
        def reply(method: str, target: str, body: bytes) -> bytes:
            if method == "GET":
                return answer(200, json.dumps(STATUS).encode())
            whole = answer(200, b'{"written":0}')
            return whole[:-3] if len(fake.requests) == 2 else whole

        fake = Fake(self, reply)
        fake.client().session("s").close_stdin()
        self.assertEqual(len(fake.requests), 3)

    def test_written_is_no_number(self) -> None:
        for status, body in ((200, b"[]"), (200, b"[" * 100_000), (200, b'{"written":null}'), (409, b'{"written":null,"error":{"code":"ended","message":"x"}}')):
            fake = Fake(self, lambda method, *_: answer(200, json.dumps(STATUS).encode()) if method == "GET" else answer(status, body))
            with self.assertRaises(corral.LostError if status == 200 else corral.EndedError):
                fake.client().session("s").write(b"x")

    def test_written_is_that_of_all_tries(self) -> None:
        def reply(method: str, target: str, body: bytes) -> bytes:
            if method == "GET":
                return answer(200, json.dumps(STATUS).encode())
            if body == b"hello":
                return answer(503, b'{"written":2,"error":{"code":"unavailable","message":"it stops"}}', "Retry-After: 1")
            return answer(200, b'{"written":1}')

        with self.assertRaises(corral.LostError) as caught:
            Fake(self, reply).client().session("s").write(b"hello")
        self.assertEqual(caught.exception.written, 3)


class TestStreams(unittest.TestCase):
    def test_a_quiet_command_outlives_gateways(self) -> None:
        def reply(method: str, target: str, body: bytes) -> bytes:
            if method == "POST":
                return answer(200, STARTED + PING, "X: y")
            if len(fake.requests) < 5:
                time.sleep(0.4)
                return answer(200, PING)
            return answer(200, EXIT)

        fake = Fake(self, reply)
        self.assertEqual(fake.client(retry=0.3).run("x").exit_code, 0)

    def test_output_of_another_length(self) -> None:
        line = b'{"type":"stdout","offset":0,"next":4,"text":"x"}\n'
        with self.assertRaises(corral.InternalError):
            Fake(self, lambda *_: answer(200, STARTED + line + EXIT.replace(b"0", b"4"))).client().run("x")

    def test_an_event_of_another_type(self) -> None:
        line = b'{"type":"resized","offset":0,"next":0,"text":"24x80"}\n'
        self.assertEqual(Fake(self, lambda *_: answer(200, STARTED + line + EXIT)).client().run("x").output, b"")

    def test_an_event_of_many_lines(self) -> None:
        fake = Fake(self, lambda *_: answer(200, b"data:\n" * 1_000_000 + b'data:{"seq":1}\n\n'))
        began = time.monotonic()
        self.assertEqual(len(list(fake.client().events(once=True))), 1)
        self.assertLess(time.monotonic() - began, 20)

    def test_text_of_output_that_is_cut(self) -> None:
        output = b'{"type":"stdout","offset":0,"next":4,"text":"\\u20acx"}\n'
        client = Fake(self, lambda *_: answer(200, STARTED + output + EXIT.replace(b": 0, \"next\": 0", b": 4, \"next\": 4"))).client()
        self.assertEqual([client.run("x", max_output=n).text for n in (1, 2, 3, 4)], ["", "", "\u20ac", "\u20acx"])

    def test_a_limit_is_one_of_all_that_comes(self) -> None:
        asked: List[str] = []

        def reply(method: str, target: str, body: bytes) -> bytes:
            query = parse_qs(urlsplit(target).query)
            if "offset" not in query:
                return answer(200, json.dumps(STATUS).encode())
            offset, limit = (int(query.get(name, ["100"])[0]) for name in ("offset", "limit"))
            asked.append(f"{offset}+{limit}")
            end = offset + min(limit, 3)
            lines = [{"type": "stdout", "offset": offset, "next": end, "text": "abcdefghijklmnop"[offset:end]}]
            if len(asked) == 2:
                lines.append({"type": "pause", "offset": end, "next": end})
            return answer(200, b"".join(json.dumps(line).encode() + b"\n" for line in lines))

        for follow, text, want in ((True, "abcdefgh", ["0+8", "3+5", "6+2"]), (False, "abcdef", ["0+8", "3+5"])):
            log = Fake(self, reply).client().session("s").log(limit=8, follow=follow)
            self.assertEqual("".join(event.text for event in log), text)
            self.assertEqual(asked, want)
            asked.clear()

    def test_close_in_another_thread(self) -> None:
        free = threading.Event()

        def reply(*_: object) -> bytes:
            free.wait(20)
            return b""

        fake = Fake(self, reply)
        self.addCleanup(free.set)
        events = fake.client().events()
        waiting = threading.Thread(target=lambda: list(events))
        waiting.start()
        while not fake.requests:
            time.sleep(0.01)
        events.close()
        waiting.join(5)
        self.assertFalse(waiting.is_alive())


class TestEarly(unittest.TestCase):
    """A gateway that answers before it has read the request."""

    def serve(self) -> str:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "s")
        server = socket.socket(socket.AF_UNIX)
        self.addCleanup(server.close)
        server.bind(path)
        server.listen()
        self.connections = 0

        def run() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                self.connections += 1
                with connection:
                    connection.recv(1000)
                    connection.sendall(answer(401, b'{"error":{"code":"unauthorized","message":"the token is wrong"}}'))
                    time.sleep(0.1)

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown, socket.SHUT_RDWR)
        return path

    def test_blocking(self) -> None:
        client = corral.Client(socket=self.serve(), retry=1)
        with self.assertRaisesRegex(corral.UnauthorizedError, "the token is wrong"):
            client.sandbox("main").files.write("x", bytes(20 << 20))
        self.assertEqual(self.connections, 1)

    def test_asyncio(self) -> None:
        async def write() -> None:
            client = corral.AsyncClient(socket=path, retry=1)
            await client.sandbox("main").files.write("x", bytes(20 << 20))

        path = self.serve()
        with self.assertRaisesRegex(corral.UnauthorizedError, "the token is wrong"):
            asyncio.run(write())
        self.assertEqual(self.connections, 1)
