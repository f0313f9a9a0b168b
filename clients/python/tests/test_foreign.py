"""Servers that are no gateway, and gateways that answer early, late or wrongly."""

from __future__ import annotations

import unittest

import corral

from .test_cut import STATUS, Fake, answer


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
