"""Answers with bytes that are changed at random: an error that is known, or an answer, and always an end."""

from __future__ import annotations

import json
import random
import unittest
from typing import List

import corral
from corral._client import AsyncClient
from corral._http import Answer
from corral._net import Data, now

from .test_cut import STATUS, answer, chunked, events

ANSWERS = [
    answer(200, json.dumps(STATUS).encode()), answer(503, b'{"error":{"code":"unavailable"}}', "Retry-After: 1"), chunked(events(0, True)),
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nA: b\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\nto the end",
]
LINES = [line for line in events(0, True).split(b"\n") if line] + [
    b"id: 7", b"event: corral.missed", b'data: {"next":7}', b"", b": ping", b'data: {"seq":8,"type":"exec.finished"}\r', b"\r",
]


class Pieces:
    """A connection from which bytes come in pieces."""

    def __init__(self, data: bytes, chance: random.Random) -> None:
        self._pieces: List[bytes] = []
        while data:
            n = chance.choice((1, 2, 7, 100, 70_000))
            self._pieces.append(data[:n])
            data = data[n:]

    async def send(self, data: Data, quiet: float) -> None:
        pass

    async def receive(self, quiet: float) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    def close(self) -> None:
        pass


def changed(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(changed) + 1)
        changed[at:at + chance.choice((0, 1, 1, 5))] = chance.choice((b"", b"\r\n", b"0", b"-1", b"f" * 20, b"\xff", b"0x1", b"{", b":", b"\n", b" ", b"9" * 30))
    return bytes(changed)


class TestFuzz(unittest.TestCase):
    def test_answers(self) -> None:
        read = 0
        for seed in range(10_000):
            chance = random.Random(seed)
            with self.subTest(seed=seed):
                a = Answer(Pieces(changed(chance.choice(ANSWERS), chance), chance), 1, "GET")
                try:
                    now(a.begin())
                    now(a.read())
                    self.assertTrue(a.ended)
                    read += 1
                except (OSError, corral.CorralError):
                    pass
        self.assertGreater(read, 1000)  # it is not all refused

    def test_lines(self) -> None:
        client = AsyncClient(socket="x")
        understood = 0
        for seed in range(10_000):
            chance = random.Random(seed)
            for feed in (client.stream("x"), client.events(0)):
                with self.subTest(seed=seed, feed=feed):
                    try:
                        feed._call()
                        for _ in range(6):
                            understood += feed._understand(changed(chance.choice(LINES), chance)) is not None
                    except corral.InternalError:
                        pass
        self.assertGreater(understood, 500)
