"""The gateway is killed, and comes back with the same state directory."""

from __future__ import annotations

import os
import threading
import time
import unittest

import corral

from .support import Gateway

# Numbered lines, in which a byte that is lost or doubled shows. Before every part it
# waits for a file.
PARTS, LINES = 3, 1500
SLOW = f"""i=0; part=0
while [ $part -lt {PARTS} ]; do
  while [ ! -e go-$part ]; do sleep 0.02; done
  part=$((part+1))
  while [ $i -lt $(({LINES}*part)) ]; do
    echo line $i é€😀; i=$((i+1)); [ $((i % 40)) -ne 0 ] || sleep 0.02
  done
done"""
WANT = "".join(f"line {i} é€😀\n" for i in range(PARTS * LINES))


class TestRestart(unittest.TestCase):
    def setUp(self) -> None:
        self.gateway = Gateway().start()
        self.addCleanup(self.gateway.close)
        self.gateway.await_ready()
        self.client = corral.Client(socket=self.gateway.socket, retry=120)

    def go(self, part: int) -> None:
        with open(os.path.join(self.gateway.work, f"go-{part}"), "wb"):
            pass

    def follow(self, stream: corral.Stream, end: str) -> str:
        """Reads a stream, and ends the gateway in the middle of each part but the first."""
        text, part = b"", 0
        self.go(0)
        for event in stream:
            text += event.data
            self.assertNotEqual(event.type, "gap")
            if event.data and part < PARTS - 1 and text.count(b"\n") > part * LINES + LINES // 2:
                part += 1
                getattr(self.gateway, end)()
                self.gateway.start()
                self.gateway.await_ready()
                self.go(part)
            if event.type == "exit":
                self.assertEqual(event.exit_code, 0)
        self.assertEqual(part, PARTS - 1)
        return text.decode()

    def test_killed_in_the_middle_of_a_stream(self) -> None:
        self.assertEqual(self.follow(self.client.stream(SLOW), "kill"), WANT)

    def test_stopped_in_the_middle_of_a_stream(self) -> None:
        self.assertEqual(self.follow(self.client.start(SLOW).log(), "stop"), WANT)

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
