"""Where a gateway is."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
from dataclasses import dataclass
from typing import Optional
from urllib.parse import quote, urlsplit

from .errors import DeniedError, InvalidError, UnavailableError

SOCKET_FILE = "gateway.sock"
TOKEN_FILE = "gateway.token"


def state_dir() -> str:
    """The state directory that the program corral uses."""
    named = os.environ.get("CORRAL_STATE_DIR", "")
    if named:
        return named
    xdg = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(xdg):
        return os.path.join(xdg, "corral")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return "/var/lib/corral"
    return os.path.join(os.path.expanduser("~"), ".local", "state", "corral")


@dataclass
class Place:
    """Where a gateway is: a Unix socket, or a URL and its token."""

    socket: str = ""
    url: str = ""
    token: str = ""
    fingerprint: str = ""  # SHA-256 of the certificate; empty: one that this machine trusts

    def __post_init__(self) -> None:
        self.host, self.port, self.prefix, self.authority = "", 0, "", "localhost"
        self.tls: Optional[ssl.SSLContext] = None
        if not self.url:
            return
        try:
            url = urlsplit(self.url.rstrip("/"))
            self.host, port = url.hostname or "", url.port
        except ValueError:
            url, port = urlsplit(""), None
        if url.scheme not in ("http", "https") or not self.host or "@" in url.netloc or url.query or url.fragment:
            shown = "…" if re.search("[@?#]", self.url) else self.url  # it may have a secret
            raise InvalidError(f"{shown!r} is no address of a gateway", hint="write it like http://127.0.0.1:7777")
        if self.fingerprint and url.scheme == "http":
            raise InvalidError(f"{self.url!r} has no certificate, and a fingerprint was given", hint="write it with https://")
        self.port = port or (443 if url.scheme == "https" else 80)
        self.prefix, self.authority = quote(url.path, safe="/%"), url.netloc
        if url.scheme == "https":
            self.tls = self._tls()

    def __str__(self) -> str:
        return self.socket or self.url

    def _tls(self) -> ssl.SSLContext:
        if self.fingerprint:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # the certificate is known by itself: see check
        else:
            context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def check(self, certificate: Optional[bytes]) -> None:
        """DeniedError if a server's certificate is not the one with the fingerprint."""
        if not self.fingerprint:
            return
        want = self.fingerprint.replace(":", "").lower()
        got = hashlib.sha256(certificate or b"").hexdigest()
        if got != want:
            raise DeniedError(f"the gateway's certificate has the fingerprint {got}, and not {want}",
                              hint="compare it with the one in the gateway's log")


def find(directory: Optional[str], token: str = "", fingerprint: str = "") -> Place:
    """Where the program corral would look: at CORRAL_URL, or else in a state directory."""
    base = directory or state_dir()
    url = os.environ.get("CORRAL_URL", "") if directory is None else ""
    if not url:
        if fingerprint:
            raise InvalidError("a fingerprint was given, and no URL", hint="leave it out, give url as well, or set CORRAL_URL: a socket has no certificate")
        return Place(socket=os.path.join(base, SOCKET_FILE), token=token)
    if token:
        return Place(url=url, token=token, fingerprint=fingerprint)
    name = os.environ.get("CORRAL_TOKEN_FILE", "") or os.path.join(base, TOKEN_FILE)
    try:
        with open(name, encoding="ascii") as f:
            token = f.read(4096).strip()
    except (OSError, ValueError) as e:
        raise UnavailableError(f"cannot read the token of the gateway at {url}: {e}", hint="name its token file in CORRAL_TOKEN_FILE") from e
    return Place(url=url, token=token, fingerprint=fingerprint)
