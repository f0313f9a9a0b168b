"""Requests to a gateway: one connection each, repeated where that is safe."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
import socket
import ssl
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple, Union
from urllib.parse import quote, urlencode, urlsplit

from .errors import CorralError, DeniedError, InvalidError, LostError, UnavailableError, from_answer

SOCKET_FILE = "gateway.sock"
TOKEN_FILE = "gateway.token"
START_HINT = "start one: corral gateway"

_CONNECT = 10.0  # seconds
_MAX_ANSWER = 64 << 20
_CUT = (OSError, http.client.HTTPException)

Query = Mapping[str, Union[str, int, bool, None]]


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

    def __str__(self) -> str:
        return self.socket or self.url


def find(directory: Optional[str]) -> Place:
    """Where the program corral would look: at CORRAL_URL, or else in a state directory."""
    base = directory or state_dir()
    url = os.environ.get("CORRAL_URL", "") if directory is None else ""
    if not url:
        return Place(socket=os.path.join(base, SOCKET_FILE))
    name = os.environ.get("CORRAL_TOKEN_FILE", "") or os.path.join(base, TOKEN_FILE)
    try:
        with open(name, encoding="ascii") as f:
            token = f.read(4096).strip()
    except (OSError, ValueError) as e:
        raise UnavailableError(f"cannot read the token of the gateway at {url}: {e}", hint="name its token file in CORRAL_TOKEN_FILE") from e
    return Place(url=url, token=token)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class NoAnswer(Exception):
    """A try that came to nothing."""

    def __init__(self, cause: Exception, *, sent: bool = False, away: bool = False) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.sent = sent  # the gateway may have acted on it
        self.away = away  # the gateway said that it stops, and did not act on it


@dataclass
class Call:
    method: str
    path: Tuple[str, ...]
    query: Query = field(default_factory=dict)
    body: Optional[bytes] = None
    kind: str = "application/json"
    accept: str = "application/json"
    header: Mapping[str, str] = field(default_factory=dict)
    once: bool = False  # sending it again might do something again
    timeout: Optional[float] = None  # seconds of silence; None: the transport's

    def target(self) -> str:
        target = "/v1/" + "/".join(quote(p, safe="") for p in self.path)
        query = {k: _text(v) for k, v in self.query.items() if v is not None and v is not False and v != ""}
        return target + "?" + urlencode(query) if query else target


def _text(value: Union[str, int, bool, None]) -> str:
    return "true" if value is True else str(value)


class Answer:
    """An answer that is being read."""

    def __init__(self, conn: http.client.HTTPConnection, sock: socket.socket, resp: http.client.HTTPResponse) -> None:
        self._conn, self._sock, self.resp = conn, sock, resp

    def quiet_limit(self, seconds: float) -> None:
        """How long there may be nothing to read."""
        self._sock.settimeout(seconds)

    def read(self) -> bytes:
        """All of it. http.client does not notice every cut, such as one in the headers."""
        if self.resp.status == 204:
            return b""
        data, announced = bytearray(), -1
        if not self.resp.chunked:
            text = self.resp.headers.get("Content-Length", "")
            if not text.isdecimal():
                raise http.client.IncompleteRead(b"")
            announced = int(text)
        while len(data) != announced:
            piece = self.some()
            if not piece:
                break
            data += piece
            if len(data) > _MAX_ANSWER:
                raise InvalidError(f"the answer has more than {_MAX_ANSWER} bytes", hint="ask for less at a time")
        if announced >= 0 and len(data) != announced:
            raise http.client.IncompleteRead(bytes(data))
        return bytes(data)

    def some(self) -> bytes:
        """What is there; empty at the end."""
        return self.resp.read1(64 << 10)

    def close(self) -> None:
        self.resp.close()
        self._conn.close()


class Patience:
    """Waits between tries, longer and longer. It runs out when there is no success."""

    def __init__(self, retry: float) -> None:
        self._retry = retry
        self.succeeded()

    def succeeded(self) -> None:
        self._until: Optional[float] = None
        self._pause = 0.01

    def wait(self) -> bool:
        """False: there is to be no further try."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + self._retry
        pause = self._pause * random.uniform(0.5, 1)
        if now + pause > self._until:
            return False
        self._pause = min(self._pause * 1.5, 1.0)
        time.sleep(pause)
        return True


class _PinnedConnection(http.client.HTTPSConnection):
    """TLS with a server whose certificate has a fingerprint, whoever signed it."""

    def __init__(self, host: str, port: Optional[int], fingerprint: str) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # it is known by itself
        super().__init__(host, port, timeout=_CONNECT, context=context)
        self._want = fingerprint.replace(":", "").lower()

    def connect(self) -> None:
        super().connect()
        got = hashlib.sha256(self.sock.getpeercert(binary_form=True) or b"").hexdigest()
        if got != self._want:
            self.close()
            raise DeniedError(f"the gateway's certificate has the fingerprint {got}, and not {self._want}",
                              hint="compare it with the one in the gateway's log")


class Transport:
    def __init__(self, place: Place, *, agent: str, session: str, sender: str, retry: float, timeout: float) -> None:
        self.place, self.retry, self.timeout = place, retry, timeout
        self.header = {"Corral-Agent": agent} if agent else {}
        if session:
            self.header["Corral-Session"] = session
        if sender:
            self.header["Corral-Sender"] = sender
        if place.token:
            self.header["Authorization"] = "Bearer " + place.token
        self._url = urlsplit(place.url.rstrip("/")) if place.url else None
        if self._url and (self._url.scheme not in ("http", "https") or not self._url.hostname):
            raise InvalidError(f"{place.url!r} is no address of a gateway", hint="write it like http://127.0.0.1:7777")
        self.reached = False

    def _connection(self) -> http.client.HTTPConnection:
        if self._url is None:
            return _UnixConnection(self.place.socket, _CONNECT)
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=_CONNECT)
        if not self.place.fingerprint:
            return http.client.HTTPSConnection(host, port, timeout=_CONNECT)
        return _PinnedConnection(host, port, self.place.fingerprint)

    def open(self, call: Call) -> Answer:
        """One try. NoAnswer if there is none."""
        conn = self._connection()
        try:
            conn.connect()
        except OSError as e:
            conn.close()
            raise NoAnswer(e) from e
        self.reached = True
        sock = conn.sock
        sock.settimeout(call.timeout or self.timeout)
        header = {"Accept": call.accept, "Connection": "close", **self.header, **call.header}
        if call.body is not None:
            header["Content-Type"] = call.kind
        prefix = self._url.path if self._url else ""
        try:
            conn.request(call.method, prefix + call.target(), body=call.body, headers=header)
            resp = conn.getresponse()
            answer = Answer(conn, sock, resp)
            if resp.status < 400:
                return answer
            body = answer.read()
        except _CUT as e:
            conn.close()
            raise NoAnswer(e, sent=True) from e
        answer.close()
        error = from_answer(resp.status, body)
        if resp.status == 503 and resp.headers.get("Retry-After"):
            raise NoAnswer(error, away=True) from error
        raise error

    def bytes(self, call: Call) -> Tuple[bytes, "http.client.HTTPMessage"]:
        """Sends a call until it is answered."""
        patience, sent = Patience(self.retry), False
        while True:
            try:
                answer = self.open(call)
                try:
                    return answer.read(), answer.resp.headers
                except _CUT as e:
                    raise NoAnswer(e, sent=True) from e
                finally:
                    answer.close()
            except NoAnswer as e:
                sent = sent or e.sent
                if sent and call.once:
                    raise self.lost(call, e.cause) from e
                if not (e.away or self.reached) or not patience.wait():
                    if sent and call.method != "GET":
                        raise self.lost(call, e.cause) from e
                    raise self.unreachable(e) from e

    def json(self, method: str, *path: str, query: Optional[Query] = None, body: Any = None, **more: Any) -> Any:
        """Sends a call with JSON, and returns the answer's."""
        data = None if body is None else json.dumps(body).encode()
        text, _ = self.bytes(Call(method, path, query or {}, data, **more))
        return json.loads(text) if text else None

    def unreachable(self, e: NoAnswer) -> CorralError:
        if isinstance(e.cause, CorralError):
            return e.cause
        hint = START_HINT if not self.place.url else "check the gateway's address, and whether it listens there"
        return UnavailableError(f"no gateway can be reached at {self.place}: {e.cause}", hint=hint)

    def lost(self, call: Call, cause: Exception) -> LostError:
        return LostError(
            f"the connection to the gateway was cut, and it is not known what became of {call.method} {'/'.join(call.path)}: {cause}",
            hint="look before doing it again",
        )
