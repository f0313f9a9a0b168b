"""A gateway for tests. It runs commands on this machine, without a sandbox."""

from __future__ import annotations

import functools
import logging
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from typing import Optional

import corral

logging.getLogger("asyncio").setLevel(logging.ERROR)  # it tells of each slow step of a test

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))


@functools.lru_cache(maxsize=None)
def program() -> str:
    """The program corral: CORRAL_BIN, or else one that is built from here."""
    named = os.environ.get("CORRAL_BIN")
    if named:
        return named
    path = os.path.join(ROOT, "bin", "corral")
    subprocess.run(["go", "build", "-o", path, "./cmd/corral"], cwd=ROOT, check=True)
    return path


class Gateway:
    def __init__(self, *flags: str) -> None:
        self.dir = tempfile.mkdtemp(prefix="corral-py-")
        self.state = os.path.join(self.dir, "state")
        self.work = os.path.join(self.dir, "work")
        os.mkdir(self.work)
        self.flags = flags
        self.process: Optional["subprocess.Popen[bytes]"] = None
        self.log = open(os.path.join(self.dir, "log"), "ab")

    @property
    def socket(self) -> str:
        return os.path.join(self.state, "gateway.sock")

    def start(self) -> "Gateway":
        env = {k: v for k, v in os.environ.items() if not k.startswith("CORRAL_") and k != "XDG_STATE_HOME"}
        env["HOME"], env["SHELL"] = self.dir, "/bin/sh"  # not the profile of who tests
        env["XDG_CONFIG_HOME"] = self.dir  # nor the configuration of this machine
        self.process = subprocess.Popen(
            [program(), "gateway", "--state-dir", self.state, "--sandbox", "off", "--workspace", self.work, *self.flags],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=env)
        return self

    def settle(self) -> None:
        """Waits until it has asked the login shell for PATH: a profile that is killed may
        leave locks behind on this machine. Sandboxes have no such shell."""
        if "--sandbox" in self.flags:
            return
        with corral.Client(socket=self.socket) as client:
            client.start("true").wait(120)

    def kill(self) -> None:
        """kill -9"""
        assert self.process is not None
        self.settle()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.settle()
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def close(self) -> None:
        """Ends it with all that it started: commands outlive a gateway."""
        if self.process is not None and self.process.poll() is not None:
            self.start()
        self.await_ready()
        with corral.Client(socket=self.socket) as client:
            for session in client.sessions(all_agents=True):
                session.remove(force=True)
        self.stop()
        self.log.close()
        for pid in self.wardens():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.dir, ignore_errors=True)

    def wardens(self) -> "list[int]":
        """Processes of programs that are in the state directory."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/cmdline", "rb") as f:
                    if f.read().startswith(os.fsencode(self.state) + b"/"):
                        found.append(int(name))
            except OSError:
                pass  # it has ended
        return found

    def said(self) -> str:
        with open(os.path.join(self.dir, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def await_ready(self) -> None:
        for _ in range(1200):
            try:
                with corral.Client(socket=self.socket) as client:
                    return client.ready()
            except corral.UnavailableError:
                assert self.process is not None and self.process.poll() is None, self.said()
                time.sleep(0.05)
        raise AssertionError("the gateway is not ready: " + self.said())

    def address(self) -> str:
        """Where it listens on TCP."""
        found = re.findall(r"address=(127\.0\.0\.1:\d+)", self.said())
        return "http://" + found[-1]


class GatewayTest(unittest.TestCase):
    """Tests that share a gateway."""

    flags: "tuple[str, ...]" = ("--listen", "127.0.0.1:0")
    gateway: Gateway

    @classmethod
    def setUpClass(cls) -> None:
        cls.gateway = Gateway(*cls.flags).start()
        cls.addClassCleanup(cls.gateway.close)
        cls.gateway.await_ready()
