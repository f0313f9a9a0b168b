from __future__ import annotations

import os
import signal
import threading
import time
import unittest
import unittest.mock

import corral
from corral._client import _start

from .support import GatewayTest

MIXED = "printf 'a\\303\\251\\342\\202\\254\\n'; printf '\\377\\376' >&2; printf '\\360\\237\\230\\200 <&>'"
MIXED_BYTES = "aé€\n".encode() + b"\xff\xfe" + "😀 <&>".encode()


class TestClient(GatewayTest):
    def setUp(self) -> None:
        self.client = corral.Client(socket=self.gateway.socket)
        self.addCleanup(self.client.close)

    def test_run(self) -> None:
        r = self.client.run("echo out; echo err >&2; exit 3")
        self.assertEqual((r.exit_code, r.stdout, r.stderr, r.signal, r.ok, r.omitted), (3, b"out\n", b"err\n", None, False, 0))
        self.assertEqual(sorted(r.text.split()), ["err", "out"])
        self.assertEqual(r.session["status"], "completed")

    def test_run_arguments(self) -> None:
        r = self.client.run(["printf", "%s|", "a b", "$HOME", "\udcff"], env={"X": "1"})
        self.assertEqual((r.exit_code, r.stdout), (0, b"a b|$HOME|\xff|"))
        self.assertEqual(self.client.run("pwd; echo $X", env={"X": "é"}, workdir="/").text, "/\né\n")

    def test_run_stdin(self) -> None:
        data = os.urandom(1 << 20)
        self.assertEqual(self.client.run("cat", stdin=data).stdout, data)
        self.assertEqual(self.client.run("exec <&-; echo no", stdin=data).text, "no\n")

    def test_run_signal(self) -> None:
        r = self.client.run("kill -TERM $$")
        self.assertEqual((r.exit_code, r.signal, r.signal_name), (None, signal.SIGTERM, "SIGTERM"))

    def test_run_max_output(self) -> None:
        r = self.client.run("head -c 100000 /dev/zero", max_output=10)
        self.assertEqual((r.output, r.omitted), (bytes(10), 99990))

    def test_gap(self) -> None:
        r = self.client.run("head -c 3000000 /dev/zero", log={"head": 1000, "tail": 2000})
        self.assertEqual(len(r.output) + r.omitted, 3000000)

    def test_stream(self) -> None:
        with self.client.stream("echo one; read x; echo got $x", stdin=True, id="talk") as stream:
            started = next(stream)
            self.assertEqual((started.type, stream.session["sessionId"]), ("started", "talk"))
            self.assertEqual(next(stream).text, "one\n")
            self.client.session("talk").write(b"two\n")
            self.assertEqual(next(stream).text, "got two\n")
            last = next(stream)
            self.assertEqual((last.type, last.exit_code), ("exit", 0))
            self.assertRaises(StopIteration, next, stream)

    def test_same_id_runs_once(self) -> None:
        path = os.path.join(self.gateway.work, "once")
        for _ in range(2):
            self.assertEqual(self.client.run(f"echo x >>{path}; cat {path}", id="once").text, "x\n")
        with self.assertRaises(corral.ConflictError):
            self.client.run("echo other", id="once")

    def test_log_from_every_offset(self) -> None:
        session = self.client.start(MIXED)
        whole = session.result().output
        self.assertEqual(sorted(whole), sorted(MIXED_BYTES))
        for offset in range(len(whole) + 1):
            for follow in (True, False):
                events = list(session.log(offset, follow=follow))
                self.assertEqual(b"".join(e.data for e in events), whole[offset:])
                self.assertEqual(events[-1].type, "exit")

    def test_poll(self) -> None:
        session = self.client.start("echo one; sleep 60")
        stream = session.log()
        self.assertEqual(next(stream).text, "one\n")
        events = list(session.log(2, follow=False))
        self.assertEqual([(e.type, e.data, e.next) for e in events], [("stdout", b"e\n", 4), ("pause", b"", 4)])
        self.assertEqual(list(session.log(4, follow=False))[0].type, "pause")
        stream.close()
        session.kill()

    def test_session(self) -> None:
        session = self.client.start("sleep 60", id="sleeper")
        self.assertEqual(session.status()["status"], "running")
        self.assertIn("sleeper", [s.id for s in self.client.sessions()])
        self.assertIn("sleeper", [s.id for s in self.client.sessions(all_agents=True)])
        with self.assertRaises(TimeoutError):
            session.wait(0.1)
        with self.assertRaises(corral.RunningError):
            session.remove()
        session.signal("INT")
        self.assertEqual(session.wait(20)["exit"]["signalName"], "SIGINT")
        with self.assertRaises(corral.EndedError):
            session.signal("INT")
        session.remove()
        session.remove()
        with self.assertRaises(corral.NotFoundError):
            session.status()

    def test_kill(self) -> None:
        session = self.client.start("sleep 60")
        self.assertEqual(session.kill()["reason"], "killed")

    def test_stdin_closed(self) -> None:
        session = self.client.start("cat", stdin=True)
        session.write(b"x")
        session.close_stdin()
        self.assertEqual(session.result().output, b"x")
        with self.assertRaises(corral.EndedError) as caught:
            session.write(b"more")
        self.assertEqual(caught.exception.written, 0)

    def test_terminal(self) -> None:
        session = self.client.start("stty size; read x; stty size", tty={"rows": 10, "cols": 20})
        stream = session.log()
        self.assertEqual(next(stream).text, "10 20\r\n")
        session.resize(30, 40)
        session.write(b"\r")
        stream.close()
        self.assertIn("30 40", session.result().text)

    def test_errors(self) -> None:
        with self.assertRaises(corral.NotFoundError) as caught:
            self.client.session("there-is-none")
        self.assertEqual((caught.exception.code, caught.exception.status), ("not-found", 404))
        self.assertIn("there-is-none", str(caught.exception))
        with self.assertRaises(corral.BadDirectoryError):
            self.client.run("true", workdir="/there/is/none")
        with self.assertRaises(corral.InvalidError):
            self.client.run("")
        with self.assertRaises(TypeError):
            self.client.run("true", cwd="/")
        with self.assertRaises(corral.NotFoundError):
            self.client.nodes()

    def test_other_agent(self) -> None:
        self.client.start("true", id="mine")
        with corral.Client(socket=self.gateway.socket, agent="other") as other:
            with self.assertRaises(corral.NotFoundError):
                other.session("mine")

    def test_lists(self) -> None:
        self.client.ready()
        self.assertEqual(self.client.sandboxes(), [])
        self.assertEqual(self.client.approvals(), [])
        with self.assertRaises(corral.NotFoundError):
            self.client.approval("calm-otter-12")
        self.assertEqual(self.client.explain("true")["route"]["host"], "gateway")
        self.assertEqual(self.client.tool("exec", command="echo hi")["stdout"], "hi\n")

    def test_tcp(self) -> None:
        with open(os.path.join(self.gateway.state, "gateway.token"), encoding="ascii") as f:
            token = f.read().strip()
        with corral.Client(url=self.gateway.address(), token=token) as client:
            self.assertEqual(client.run("echo tcp").text, "tcp\n")
        with corral.Client(url=self.gateway.address(), token="x" * 32) as client:
            with self.assertRaises(corral.UnauthorizedError):
                client.sessions()

    def test_discovery(self) -> None:
        with corral.Client(state_dir=self.gateway.state) as client:
            client.ready()
        with unittest.mock.patch.dict(os.environ, {"CORRAL_STATE_DIR": self.gateway.state, "CORRAL_URL": self.gateway.address()}):
            with corral.Client() as client:
                self.assertTrue(str(client._inner._transport.place).startswith("http://"))
                client.sessions()
        with unittest.mock.patch.dict(os.environ, {"CORRAL_STATE_DIR": self.gateway.state, "CORRAL_URL": "https://127.0.0.1:1"}):
            with corral.Client(token="own", fingerprint="ab:cd") as client:
                place = client._inner._transport.place
                self.assertEqual((place.url, place.token, place.fingerprint), ("https://127.0.0.1:1", "own", "ab:cd"))
        with unittest.mock.patch.dict(os.environ, {"CORRAL_URL": ""}), self.assertRaises(corral.InvalidError):
            corral.Client(fingerprint="ab:cd")

    def test_threads(self) -> None:
        texts = {}

        def work(n: int) -> None:
            texts[n] = self.client.run(f"echo {n}").text

        threads = [threading.Thread(target=work, args=(n,)) for n in range(10)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(texts, {n: f"{n}\n" for n in range(10)})


class TestNoGateway(unittest.TestCase):
    def test_fails_at_once(self) -> None:
        begin = time.monotonic()
        with corral.Client(socket="/there/is/none.sock") as client:
            for call in (client.sessions, lambda: client.run("true"), lambda: client.start("true")):
                with self.assertRaises(corral.UnavailableError) as caught:
                    call()
                self.assertIn("corral gateway", caught.exception.hint)
        self.assertLess(time.monotonic() - begin, 5)

    def test_bad_address(self) -> None:
        for url in ("localhost:7777", "ftp://x", "http://"):
            with self.assertRaises(corral.InvalidError):
                corral.Client(url=url)
        with self.assertRaises(corral.InvalidError):
            corral.Client(url="http://x", socket="y")


class TestStart(unittest.TestCase):
    def test_binary(self) -> None:
        body = _start("a\udcff", {"id": "x", "env": {"A": "\udcfe"}, "merge_stderr": True})
        self.assertEqual(body, {"id": "x", "mergeStderr": True, "binary": {"command": "Yf8=", "env": ["QT3+"]}})
