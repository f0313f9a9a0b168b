"""Answers that are cut, at any byte, by a gateway that is a script."""

from __future__ import annotations

import base64
import json
import os
import socketserver
import tempfile
import threading
import unittest
from typing import Callable, Dict, List, Tuple
from urllib.parse import parse_qs, urlsplit

import corral
from corral._events import parse

OUTPUT = "aé€😀\n".encode() + b"\xff\xfe" + b"end\n"
STATUS = {"sessionId": "s", "status": "running", "startedAt": "2026-01-01T00:00:00.5Z"}


def events(offset: int, started: bool) -> bytes:
    lines: List[Dict[str, object]] = [{"type": "started", "offset": 0, "next": 0, "session": STATUS}] if started else []
    cut = OUTPUT.index(b"\xff")
    for begin, end in ((0, 3), (3, cut), (cut, cut + 2), (cut + 2, len(OUTPUT))):
        begin = max(begin, offset)
        if begin < end:
            data = OUTPUT[begin:end]
            lines.append({"type": "ping", "offset": begin, "next": begin})
            try:
                lines.append({"type": "stdout", "offset": begin, "next": end, "text": data.decode()})
            except UnicodeDecodeError:
                lines.append({"type": "stderr", "offset": begin, "next": end, "binary": base64.b64encode(data).decode()})
    lines.append({"type": "exit", "offset": len(OUTPUT), "next": len(OUTPUT), "exitCode": 0, "signal": None, "signalName": None, "session": STATUS})
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


def answer(status: int, body: bytes, *header: str) -> bytes:
    head = [f"HTTP/1.1 {status} X", "Content-Type: x", f"Content-Length: {len(body)}", *header, "", ""]
    return "\r\n".join(head).encode() + body


def chunked(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (body[i:i + 50] for i in range(0, len(body), 50))) + b"0\r\n\r\n"


class Fake:
    """A server of which every answer is what reply returns for the method, target and body."""

    def __init__(self, test: unittest.TestCase, reply: Callable[[str, str, bytes], bytes]) -> None:
        self.requests: List[Tuple[str, str, bytes]] = []
        fake = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                method, target, _ = self.rfile.readline().decode().split(" ", 2)
                length = 0
                while True:
                    line = self.rfile.readline().decode().strip().lower()
                    if not line:
                        break
                    if line.startswith("content-length:"):
                        length = int(line.split(":")[1])
                body = self.rfile.read(length)
                fake.requests.append((method, target, body))
                self.wfile.write(reply(method, target, body))

        directory = tempfile.TemporaryDirectory()
        test.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "s")
        server = socketserver.ThreadingUnixStreamServer(self.path, Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        test.addCleanup(server.server_close)
        test.addCleanup(thread.join)
        test.addCleanup(server.shutdown)

    def client(self, retry: float = 5) -> corral.Client:
        return corral.Client(socket=self.path, retry=retry)


class TestCut(unittest.TestCase):
    def test_stream_is_cut_at_every_byte(self) -> None:
        cut = [0]

        def reply(method: str, target: str, body: bytes) -> bytes:
            offset = int(parse_qs(urlsplit(target).query).get("offset", ["0"])[0])
            whole = chunked(events(offset, method == "POST"))
            at, cut[0] = cut[0], 1 << 30
            return whole[:at]

        fake = Fake(self, reply)
        client = fake.client()
        for at in range(0, len(chunked(events(0, True))) + 1, 1):
            cut[0] = at
            r = client.run("x")
            self.assertEqual((r.output, r.stderr, r.exit_code), (OUTPUT, b"\xff\xfe", 0), f"cut at {at}")

    def test_answer_is_cut_at_every_byte(self) -> None:
        cut = [0]
        whole = answer(200, json.dumps(STATUS).encode())

        def reply(*_: object) -> bytes:
            at, cut[0] = cut[0], len(whole)
            return whole[:at]

        client = Fake(self, reply).client()
        for at in range(len(whole) + 1):
            cut[0] = at
            self.assertEqual(client.session("s").info, STATUS, f"cut at {at}")

    def test_start_is_repeated_with_its_id(self) -> None:
        fake = Fake(self, lambda method, target, body: b"" if len(fake.requests) < 3 else answer(201, json.dumps(STATUS).encode()))
        fake.client().start("x")
        ids = [json.loads(body)["id"] for _, _, body in fake.requests]
        self.assertEqual((len(ids), len(set(ids))), (3, 1))

    def test_what_may_be_done_twice_is_lost(self) -> None:
        fake = Fake(self, lambda method, target, body: answer(200, json.dumps(STATUS).encode()) if method == "GET" else b"")
        client = fake.client()
        session = client.session("s")
        for call in (lambda: session.signal("INT"), lambda: session.write(b"x"), lambda: client.answer("a", "deny"), lambda: client.tool("exec", command="x")):
            before = len(fake.requests)
            with self.assertRaises(corral.LostError):
                call()
            self.assertEqual(len(fake.requests), before + 1)

    def test_kill_whose_answer_is_cut(self) -> None:
        ended = {"error": {"code": "ended", "message": "session s has ended"}}
        kills = [b"", answer(409, json.dumps(ended).encode()), answer(409, json.dumps(ended).encode())]
        fake = Fake(self, lambda method, target, body: answer(200, json.dumps(STATUS).encode()) if method == "GET" else kills.pop(0))
        session = fake.client().session("s")
        self.assertEqual(session.kill(), STATUS)
        with self.assertRaises(corral.EndedError):
            session.kill()

    def test_input_goes_on_where_the_gateway_stopped(self) -> None:
        def reply(method: str, target: str, body: bytes) -> bytes:
            if method == "GET":
                return answer(200, json.dumps(STATUS).encode())
            if len(fake.requests) == 2:
                error = {"written": 2, "error": {"code": "unavailable", "message": "it stops"}}
                return answer(503, json.dumps(error).encode(), "Retry-After: 1")
            return answer(200, json.dumps({"written": len(body)}).encode())

        fake = Fake(self, reply)
        fake.client().session("s").write(b"abcdef")
        self.assertEqual([body for _, _, body in fake.requests[1:]], [b"abcdef", b"cdef"])

    def test_unavailable_without_an_end(self) -> None:
        fake = Fake(self, lambda *_: answer(503, b'{"error":{"code":"unavailable","message":"it stops"}}', "Retry-After: 1"))
        with self.assertRaisesRegex(corral.UnavailableError, "it stops"):
            fake.client(retry=0.2).sessions()
        self.assertGreater(len(fake.requests), 2)

    def test_pending_approval(self) -> None:
        body = {"error": {"code": "approval-pending", "message": "it waits", "details": {"approvalId": "calm-otter-12"}}}
        fake = Fake(self, lambda *_: answer(403, json.dumps(body).encode()))
        for call in (fake.client().run, fake.client().start):
            with self.assertRaises(corral.ApprovalPendingError) as caught:
                call("x")
            self.assertEqual(caught.exception.approval_id, "calm-otter-12")
        self.assertEqual(len(fake.requests), 2)

    def test_foreign_answers(self) -> None:
        for status, kind in ((404, corral.NotFoundError), (502, corral.LostError), (500, corral.InternalError), (418, corral.InvalidError)):
            fake = Fake(self, lambda *_: answer(status, b"<html>"))
            with self.assertRaises(kind):
                fake.client().sessions()

    def test_answers_without_a_body(self) -> None:
        for method, head in (("HEAD", "200 X\r\nContent-Length: 5"), ("HEAD", "200 X\r\nTransfer-Encoding: chunked"), ("HEAD", "404 X\r\nContent-Length: 5"),
                             ("HEAD", "200 X"), ("GET", "204 X\r\nContent-Length: 5"), ("GET", "304 X\r\nContent-Length: 5")):
            for before in ("", "HTTP/1.1 103 X\r\nContent-Length: 5\r\n\r\n"):
                with self.subTest(method=method, head=head, before=before):
                    fake = Fake(self, lambda *_: f"{before}HTTP/1.1 {head}\r\n\r\n".encode())
                    fetched = fake.client(retry=0.2).sandbox("main").fetch(8000, method=method)
                    self.assertEqual((fetched.status, fetched.body, len(fake.requests)), (int(head[:3]), b"", 1))

    def test_events_that_do_not_join(self) -> None:
        for line in (b'{"type":"stdout","offset":3,"next":4,"text":"x"}', b"[]", b"{}", b'{"type":"x","offset":2,"next":1}'):
            fake = Fake(self, lambda method, *_: answer(200, json.dumps(STATUS).encode() if len(fake.requests) == 1 else line + b"\n"))
            with self.assertRaises(corral.InternalError):
                list(fake.client().session("s").log())

    def test_parse(self) -> None:
        e = parse(b'{"type":"exit","offset":1,"next":1,"exitCode":null,"signal":9,"signalName":"SIGKILL"}')
        self.assertEqual((e.exit_code, e.signal, e.signal_name, e.data), (None, 9, "SIGKILL", b""))


class TestFileCalls(unittest.TestCase):
    """What is asked of a gateway with sandboxes."""

    def test_calls(self) -> None:
        pages = [{"entries": [{"path": "/w/a"}], "next": "a"}, {"entries": [{"path": "/w/b"}]}]

        def reply(method: str, target: str, body: bytes) -> bytes:
            if target.startswith("/v1/sandboxes/main/files?") and method == "GET":
                return answer(200, json.dumps(pages["after" in target]).encode())
            if method == "GET" and "content" in target:
                return answer(200, b"\x00\xff")
            return answer(204, b"") if method in ("POST", "DELETE") else answer(200, b"{}")

        fake = Fake(self, reply)
        files = fake.client().sandbox("main").files
        self.assertEqual(files.read("a b"), b"\x00\xff")
        files.write("f", b"x", mode=0o640, parents=True)
        self.assertEqual([f["path"] for f in files.list()], ["/w/a", "/w/b"])
        files.mkdir("d", parents=True)
        files.remove("d", all=True)
        files.stat("f")
        base = "/v1/sandboxes/main/files"
        self.assertEqual([(m, t) for m, t, _ in fake.requests], [
            ("GET", base + "/content?path=a+b"), ("PUT", base + "/content?path=f&mode=640&parents=true"),
            ("GET", base + "?path=."), ("GET", base + "?path=.&after=a"), ("POST", base + "/directory?path=d&parents=true"),
            ("DELETE", base + "?path=d&all=true"), ("GET", base + "/stat?path=f"),
        ])
