"""The gateway is killed, and comes back with the same state directory."""

from __future__ import annotations

import threading
import time
import unittest

import corral

from .support import Gateway

# Numbered lines, in which a byte that is lost or doubled shows.
LINES = 4000
SLOW = f"i=0; while [ $i -lt {LINES} ]; do echo line $i é€😀; i=$((i+1)); [ $((i % 40)) -ne 0 ] || sleep 0.05; done"
WANT = "".join(f"line {i} é€😀\n" for i in range(LINES))


class TestRestart(unittest.TestCase):
    def setUp(self) -> None:
        self.gateway = Gateway().start()
        self.addCleanup(self.gateway.close)
        self.gateway.await_socket()
        self.client = corral.Client(socket=self.gateway.socket)
        self.client.ready()

    def follow(self, stream: corral.Stream, restart: "list[str]") -> str:
        """Reads a stream, and ends the gateway from time to time."""
        text, next_at = b"", 20_000
        for event in stream:
            text += event.data
            self.assertNotEqual(event.type, "gap")
            if len(text) > next_at and restart:
                next_at += 15_000
                getattr(self.gateway, restart.pop())()
                self.gateway.start()
            if event.type == "exit":
                self.assertEqual(event.exit_code, 0)
        self.assertEqual(restart, [])
        return text.decode()

    def test_killed_in_the_middle_of_a_stream(self) -> None:
        text = self.follow(self.client.stream(SLOW), ["kill", "kill"])
        self.assertEqual(text, WANT)

    def test_stopped_in_the_middle_of_a_stream(self) -> None:
        text = self.follow(self.client.start(SLOW).log(), ["stop"])
        self.assertEqual(text, WANT)

    def test_calls_wait_for_the_gateway(self) -> None:
        session = self.client.start("sleep 2; echo done", id="waiting")
        results = []
        waiter = threading.Thread(target=lambda: results.append(session.wait(60)["exit"]["exitCode"]))
        waiter.start()
        time.sleep(0.3)
        self.gateway.kill()
        later = threading.Timer(0.5, self.gateway.start)
        later.start()
        self.assertEqual(self.client.run("echo again").text, "again\n")
        waiter.join(60)
        later.join()
        self.assertEqual(results, [0])
        self.assertEqual(session.result().text, "done\n")

    def test_gateway_stays_away(self) -> None:
        client = corral.Client(socket=self.gateway.socket, retry=0.5)
        session = client.start("cat", stdin=True)
        stream = session.log()
        self.gateway.kill()
        for call in (lambda: next(stream), client.sessions, lambda: session.write(b"x"), lambda: client.run("true")):
            with self.assertRaises(corral.UnavailableError):
                call()
