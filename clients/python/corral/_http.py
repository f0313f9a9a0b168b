"""Requests to a gateway: one connection each, repeated where that is safe."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import random
import re
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Generic, Mapping, Optional, Tuple, TypeVar, Union
from urllib.parse import quote, urlencode

from ._net import Network, Pipe
from ._place import Place
from .errors import CorralError, InternalError, InvalidError, LostError, UnavailableError, from_answer

START_HINT = "start one: corral gateway"

_MAX_ANSWER = 64 << 20
_MAX_HEAD = 64 << 10
_PIECE = 256 << 10
_QUIET = 60.0  # for streams: the gateway says something every 15 seconds

Query = Mapping[str, Union[str, int, bool, None]]
E = TypeVar("E")


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
    rest: str = ""  # what follows path and is not the gateway's; with it, no answer is an error

    def target(self) -> str:
        target = "/v1/" + "/".join(quote(p, safe="") for p in self.path) + quote(self.rest, safe="/?&=%:@!$'()*+,;~-._[]")
        query = {k: _text(v) for k, v in self.query.items() if v is not None and v is not False and v != ""}
        return target + "?" + urlencode(query) if query else target


def _text(value: Union[str, int, bool, None]) -> str:
    return "true" if value is True else str(value)


def parse_json(text: bytes) -> Any:
    """The JSON of an answer; None of an empty one."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError) as e:
        raise InvalidError(f"the answer is not JSON: {text[:100]!r}", hint="check that the address is that of a gateway of corral") from e


class Answer:
    """An answer that is being read. A cut is an OSError."""

    status: int
    headers: http.client.HTTPMessage

    def __init__(self, pipe: Pipe, quiet: float, method: str) -> None:
        self.quiet = quiet  # seconds for which there may be nothing to read
        self.ended = False  # the end was read
        self._pipe = pipe
        self._method = method  # that it answers
        self._raw = bytearray()  # was received, and is not read
        self._body = bytearray()  # of line: was read, and is not returned
        self._left: Optional[int] = 0  # of the body, or of its chunk; None: to the end of the connection
        self._chunked = False

    def close(self) -> None:
        self._pipe.close()

    async def send(self, head: bytes, body: Optional[bytes]) -> None:
        rest = memoryview(body or b"")
        await self._pipe.send(head + rest[:_PIECE], self.quiet)
        for at in range(_PIECE, len(rest), _PIECE):
            await self._pipe.send(rest[at:at + _PIECE], self.quiet)

    async def begin(self) -> None:
        """Reads the status and the headers."""
        while True:
            while len(self._raw) < 7 and await self._receive():
                pass
            if not b"HTTP/1.".startswith(bytes(self._raw[:7])):
                raise _no_http(self._raw)
            first = (await self._until(b"\r\n")).split(None, 2)
            if len(first) < 2 or not re.fullmatch(rb"[1-9]\d\d", first[1]):
                raise _no_http(b" ".join(first))
            self.status = int(first[1])
            head = b""
            while not head.endswith(b"\r\n\r\n") and head != b"\r\n":
                head += await self._until(b"\r\n")
                if len(head) > _MAX_HEAD:
                    raise ConnectionError(f"headers of more than {_MAX_HEAD} bytes")
            if self.status >= 200:
                break
        try:
            self.headers = http.client.parse_headers(io.BytesIO(head))
        except http.client.HTTPException as e:
            raise ConnectionError(f"headers that are not understood: {e!r}") from e
        length = self.headers.get("Content-Length", "")
        if self._method == "HEAD" or self.status in (204, 304):
            self.ended = True  # a length is that of the body that GET would have
        elif self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            self._chunked = True
        elif length:
            if not re.fullmatch("[0-9]{1,18}", length):
                raise ConnectionError(f"a length that is not understood: {length:.100}")
            self._left = int(length)
            self.ended = self._left == 0
        else:
            self._left = None

    async def some(self) -> bytes:
        """What is there of the body; empty at the end."""
        if self._chunked and self._left == 0 and not self.ended:
            size = (await self._until(b"\r\n")).split(b";")[0].strip()
            if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}", size):
                raise ConnectionError(f"a chunk that is not understood: {size!r:.100}")
            self._left = int(size, 16)
            if self._left == 0:
                while await self._until(b"\r\n") != b"\r\n":
                    pass  # a trailer
                self.ended = True
        if self.ended:
            return b""
        if not self._raw and not await self._receive():
            if self._left is not None:
                raise ConnectionError("the answer was cut")
            self.ended = True
        piece = bytes(self._raw[:self._left])
        del self._raw[:len(piece)]
        if self._left is not None:
            self._left -= len(piece)
            if self._left == 0 and self._chunked:
                if await self._until(b"\r\n") != b"\r\n":
                    raise ConnectionError("a chunk without an end")
            elif self._left == 0:
                self.ended = True
        return piece

    async def read(self) -> bytes:
        """All of the body."""
        data = bytearray()
        while True:
            piece = await self.some()
            if not piece:
                return bytes(data)
            data += piece
            if len(data) > _MAX_ANSWER:
                raise InvalidError(f"the answer has more than {_MAX_ANSWER} bytes", hint="ask for less at a time")

    async def line(self, most: int) -> Optional[bytes]:
        """The next whole line of the body; None: there is none, or the answer was cut (not ended)."""
        seen = 0
        while True:
            end = self._body.find(b"\n", seen)
            if end >= 0:
                line = bytes(self._body[:end])
                del self._body[:end + 1]
                return line
            seen = len(self._body)
            if seen > most:
                raise InternalError(f"a line of more than {most} bytes")
            try:
                piece = await self.some()
            except OSError:
                return None
            if not piece:
                return None
            self._body += piece

    async def _receive(self) -> bool:
        piece = await self._pipe.receive(self.quiet)
        self._raw += piece
        return bool(piece)

    async def _until(self, end: bytes) -> bytes:
        while True:
            at = self._raw.find(end)
            if at >= 0:
                at += len(end)
                found = bytes(self._raw[:at])
                del self._raw[:at]
                return found
            if len(self._raw) > _MAX_HEAD:
                raise ConnectionError(f"a line of HTTP of more than {_MAX_HEAD} bytes")
            if not await self._receive():
                raise ConnectionError("the answer was cut")


def _no_http(text: Union[bytes, bytearray]) -> UnavailableError:
    """It does not go away by waiting."""
    return UnavailableError(f"that is no answer of HTTP: {bytes(text[:100])!r}", hint="check that the address is that of a gateway of corral")


class Transport:
    def __init__(self, network: Network, place: Place, *, agent: str, session: str, sender: str, retry: float, timeout: float) -> None:
        self.network, self.place, self.retry, self.timeout = network, place, retry, timeout
        self.header = {"Corral-Agent": agent, "Corral-Session": session, "Corral-Sender": sender,
                       "Authorization": place.token and "Bearer " + place.token}
        if any(c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for value in self.header.values() for c in value):
            raise InvalidError("the token, the agent, the session or the sender cannot be in a header", hint="give it as one line of text")
        self.reached = False

    async def open(self, call: Call, hold: Callable[[Answer], None] = lambda _: None) -> Answer:
        """One try. NoAnswer if there is none. hold is given the answer before it comes."""
        head = self._head(call)
        try:
            pipe = await self.network.connect(self.place)
        except OSError as e:
            raise NoAnswer(e) from e
        self.reached = True
        answer = Answer(pipe, call.timeout or self.timeout, call.method)
        try:
            hold(answer)
            with contextlib.suppress(ConnectionError):  # it may have answered before it read all
                await answer.send(head, call.body)
            await answer.begin()
            if answer.status < 300 or call.rest:
                return answer
            body = await answer.read()
        except OSError as e:
            answer.close()
            raise NoAnswer(e, sent=True) from e
        except BaseException:  # a task that is cancelled, too
            answer.close()
            raise
        answer.close()
        after = answer.headers.get("Retry-After", "")
        error = from_answer(answer.status, body, int(after) if re.fullmatch("[0-9]{1,9}", after) else 0)
        if answer.status == 503 and after:
            raise NoAnswer(error, away=True) from error
        raise error

    def _head(self, call: Call) -> bytes:
        header = {"Host": self.place.authority, "Accept": call.accept, "Accept-Encoding": "identity", "Connection": "close",
                  **self.header, **call.header}
        if call.body is not None:
            header["Content-Type"] = call.kind
        if call.body is not None or call.method not in ("GET", "HEAD", "DELETE"):
            header["Content-Length"] = str(len(call.body or b""))
        lines = [f"{call.method} {self.place.prefix}{call.target()} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in header.items() if value]
        return "\r\n".join([*lines, "", ""]).encode()

    async def bytes(self, call: Call) -> Tuple[bytes, Answer]:
        """Sends a call until it is answered."""
        patience, sent = Patience(self), False
        while True:
            try:
                answer = await self.open(call)
                try:
                    return await answer.read(), answer
                except OSError as e:
                    raise NoAnswer(e, sent=True) from e
                finally:
                    answer.close()
            except CorralError as e:
                e._repeated = sent
                raise
            except NoAnswer as e:
                sent = sent or e.sent
                if sent and call.once:
                    raise self.lost(call, e.cause) from e
                if not (e.away or self.reached) or not await patience.wait():
                    if sent and call.method != "GET":
                        raise self.lost(call, e.cause) from e
                    raise self.unreachable(e) from e

    async def json(self, method: str, *path: str, query: Optional[Query] = None, body: Any = None, **more: Any) -> Any:
        """Sends a call with JSON, and returns the answer's."""
        data = None if body is None else json.dumps(body).encode()
        text, _ = await self.bytes(Call(method, path, query or {}, data, **more))
        return parse_json(text)

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


class Patience:
    """Waits between tries, longer and longer. It runs out when there is no success."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.succeeded()

    def succeeded(self) -> None:
        self._until: Optional[float] = None
        self._pause = 0.01

    async def wait(self) -> bool:
        """False: there is to be no further try."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + self._transport.retry
        pause = self._pause * random.uniform(0.5, 1)
        if now + pause > self._until:
            return False
        self._pause = min(self._pause * 1.5, 1.0)
        await self._transport.network.sleep(pause)
        return True


class Feed(Generic[E]):
    """Iterates over what the lines of an answer say, over as many connections as it takes.

    A kind of feed says what to ask for (_call) and what a line says (_understand). A task
    that is cancelled closes the connection; the next item is then asked for anew.
    """

    most = 4 << 20  # bytes of a line

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._patience = Patience(transport)
        self._answer: Optional[Answer] = None
        self._over = False  # nothing comes after what _understand returned
        self._anew = False  # nor does anything in this answer
        self._whole = False  # the end of an answer is the end of all

    def _call(self) -> Call:
        """What goes on from here."""
        raise NotImplementedError

    def _understand(self, line: bytes) -> Optional[E]:
        """What a line says; None: nothing."""
        raise NotImplementedError

    def _bears(self, e: UnavailableError) -> bool:
        """Whether the call is to be repeated after that answer."""
        return True

    def _hold(self, answer: Answer) -> None:
        if self._over:  # closed meanwhile
            raise StopAsyncIteration
        self._answer = answer
        answer.quiet = _QUIET

    def _drop(self) -> None:
        if self._answer is not None:
            self._answer.close()
            self._answer = None

    async def close(self) -> None:
        """Lets go of the connection, also for a task that waits for an item. A command goes on."""
        self._over = True
        self._drop()

    def __aiter__(self) -> "Feed[E]":
        return self

    async def __anext__(self) -> E:
        if self._over:
            raise StopAsyncIteration
        try:
            item = await self._next()
        except Exception:
            self._drop()
            if self._over:
                raise StopAsyncIteration from None
            raise
        except BaseException:  # a task that is cancelled
            self._drop()
            raise
        if self._over:
            self._drop()
        return item

    async def _next(self) -> E:
        while True:
            error: Exception = ConnectionError("the output was cut")
            try:
                if self._answer is None:
                    await self._transport.open(self._call(), self._hold)
                answer = self._answer
                if answer is None:  # closed meanwhile
                    raise StopAsyncIteration
                line = await answer.line(self.most)
                if line is not None:
                    item = self._understand(line)
                    self._patience.succeeded()  # a ping is one, too: the command may be quiet for long
                    if item is not None:
                        if not self._anew:
                            return item
                    elif not self._anew:
                        continue
                    self._anew = False
                elif self._over or answer.ended and self._whole:
                    self._over = True
                    raise StopAsyncIteration
            except NoAnswer as e:
                if not (e.away or self._transport.reached):
                    raise self._transport.unreachable(e) from e
                error = e.cause
            except UnavailableError as e:
                if not e.status or not self._bears(e):  # without one it speaks no HTTP
                    raise
                error = e
            self._drop()
            if not await self._patience.wait():
                raise self._transport.unreachable(NoAnswer(error)) from error
