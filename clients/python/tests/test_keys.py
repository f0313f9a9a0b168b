"""A gateway with TLS and keys."""

import json
import os
import subprocess
import unittest

import corral
from tests.support import Gateway, program


class Keys(unittest.TestCase):
    def test_key_over_tls(self) -> None:
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
        pem = os.path.join(gateway.state, "gateway.pem")
        printed = subprocess.run(["openssl", "x509", "-in", pem, "-noout", "-fingerprint", "-sha256"],
                                 check=True, capture_output=True, text=True).stdout
        fingerprint = printed.strip().split("=")[1]
        key = subprocess.run([program(), "keys", "create", "acme", "--role", "agent", "--agent", "acme", "--state-dir", gateway.state],
                             check=True, capture_output=True, text=True).stdout.strip()
        with corral.Client(url=url, token=key, fingerprint=fingerprint) as client:
            self.assertEqual(client.run("echo by a key").stdout, b"by a key\n")
        with corral.Client(url=url, token=key, fingerprint=fingerprint, agent="other") as client:
            with self.assertRaises(corral.DeniedError):
                client.run("true")
        with corral.Client(url=url, token=key, fingerprint="00" * 32) as client:
            with self.assertRaises(corral.DeniedError):
                client.run("true")
        with corral.Client(url=url, token=key, retry=0) as client:  # which this machine does not trust
            with self.assertRaises(corral.UnavailableError):
                client.run("true")
