"""The output of a session as events, read on where a connection was cut."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, Optional

from ._http import _CUT, Answer, Call, NoAnswer, Patience, Transport
from .errors import InternalError, UnavailableError

TYPE = "application/x-ndjson"

# The gateway says something every 15 seconds.
_QUIET = 60.0
_MAX_LINE = 4 << 20


@dataclass(frozen=True)
class Event:
    """One event. type is started, stdout, stderr, gap, pause or exit."""

    type: str
    offset: int  # in the log: where it begins
    next: int  # where the rest begins
    data: bytes = b""  # output, of stdout and stderr
    exit_code: Optional[int] = None  # of exit; None: a signal ended it, or it is not known
    signal: Optional[int] = None
    signal_name: Optional[str] = None
    session: Optional[Dict[str, Any]] = None  # of started and exit

    @property
    def text(self) -> str:
        """The output, with U+FFFD for what is not UTF-8."""
        return self.data.decode("utf-8", "replace")


def parse(line: bytes) -> Event:
    try:
        e = json.loads(line)
        data = e["text"].encode() if "text" in e else base64.b64decode(e.get("binary", ""), validate=True)
        event = Event(
            e["type"], e["offset"], e["next"], data, e.get("exitCode"), e.get("signal"), e.get("signalName"), e.get("session")
        )
        if not 0 <= event.offset <= event.next:
            raise ValueError("an event that ends before it begins")
        return event
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise InternalError(f"an event that is not understood: {line[:100]!r}: {e}") from e


def _lines(answer: Answer) -> Iterator[bytes]:
    """Lines that are whole. It just ends if the answer was cut."""
    rest = b""
    while True:
        try:
            piece = answer.some()
        except _CUT:
            return
        if not piece:
            return
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > _MAX_LINE:
            raise InternalError(f"a line of more than {_MAX_LINE} bytes")
        yield from whole


class Stream:
    """Iterates over a session's events, over as many connections as it takes.

    first is the call that begins it; then is asked for the call that goes on from an
    offset, once the session is known. session is known after the first event.
    """

    def __init__(self, transport: Transport, first: Call, then: Callable[[Dict[str, Any], int], Call],
                 session: Optional[Dict[str, Any]] = None, offset: int = 0, follow: bool = True) -> None:
        self._transport, self._first, self._then, self._follow = transport, first, then, follow
        self.session = session
        self.offset = offset  # where the rest begins
        self._answer: Optional[Answer] = None
        self._events = self._read()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the stream. The command goes on."""
        self._events.close()
        if self._answer is not None:
            self._answer.close()
            self._answer = None

    def _read(self) -> Iterator[Event]:
        patience = Patience(self._transport.retry)
        call = self._first
        while True:
            error: Exception
            try:
                self._answer = self._transport.open(call)
                self._answer.quiet_limit(_QUIET)
                for line in _lines(self._answer):
                    event = parse(line)
                    if event.type == "ping":
                        continue
                    if event.offset != self.offset:
                        raise InternalError(f"an event from {event.offset}, and it was to be from {self.offset}")
                    patience.succeeded()
                    self.offset = event.next
                    if event.session is not None:
                        self.session = event.session
                    if event.type == "pause" and self._follow:
                        break
                    yield event
                    if event.type in ("exit", "pause"):
                        return
                error = ConnectionError("the output was cut")
            except NoAnswer as e:
                if not (e.away or self._transport.reached):
                    raise self._transport.unreachable(e) from e
                error = e.cause
            except UnavailableError as e:
                if self.session is None:
                    raise
                error = e  # the command was started: what it runs on may come back
            finally:
                if self._answer is not None:
                    self._answer.close()
                    self._answer = None
            if not patience.wait():
                raise self._transport.unreachable(NoAnswer(error)) from error
            if self.session is not None:
                call = self._then(self.session, self.offset)
