"""The output of a session as events, and the events of sessions."""

from __future__ import annotations

import base64
import codecs
import json
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Optional

from ._http import Call, Feed, Query, Transport
from .errors import InternalError, UnavailableError

TYPE = "application/x-ndjson"
MISSED = "corral.missed"  # the type of an event: some before its seq are no longer kept


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
    # The output with U+FFFD for what is not UTF-8. A character of which data has only the
    # beginning is in the text of the next event of the same stream.
    text: str = ""


def parse(line: bytes) -> Event:
    try:
        e = json.loads(line)
        data = e["text"].encode() if "text" in e else base64.b64decode(e.get("binary", ""), validate=True)
        event = Event(
            e["type"], e["offset"], e["next"], data, e.get("exitCode"), e.get("signal"), e.get("signalName"), e.get("session")
        )
        if not 0 <= event.offset <= event.next:
            raise ValueError("an event that ends before it begins")
        if event.type in ("stdout", "stderr") and len(data) != event.next - event.offset:
            raise ValueError(f"output of {len(data)} bytes")
        return event
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise InternalError(f"an event that is not understood: {line[:100]!r}: {e}") from e


class AsyncStream(Feed[Event]):
    """Iterates over a session's events: async for, or next by next.

    session is known after the first event. To leave it before its end, use it in async
    with, or close it. The command goes on.
    """

    def __init__(self, transport: Transport, first: Call, then: Callable[[Dict[str, Any], int, Optional[int]], Call],
                 session: Optional[Dict[str, Any]] = None, offset: int = 0, follow: bool = True, limit: int = 0) -> None:
        super().__init__(transport)
        self._first, self._then, self._follow = first, then, follow
        self.session = session
        self.offset = offset  # where the rest begins
        self._left = limit or None  # bytes of the limit
        self._decoders: Dict[str, codecs.IncrementalDecoder] = {}

    async def __aenter__(self) -> "AsyncStream":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _call(self) -> Call:
        if self._left == 0:
            raise StopAsyncIteration
        return self._first if self.session is None else self._then(self.session, self.offset, self._left)

    def _bears(self, e: UnavailableError) -> bool:
        return self.session is not None  # the command was started: what it runs on may come back

    def _understand(self, line: bytes) -> Optional[Event]:
        event = parse(line)
        if event.type == "ping":
            return None
        if event.offset != self.offset:
            raise InternalError(f"an event from {event.offset}, and it was to be from {self.offset}")
        self.offset = event.next
        self.session = event.session or self.session
        if self._left is not None:
            self._left = max(0, self._left - len(event.data))
        self._anew = event.type == "pause" and self._follow and self._left != 0
        self._over = event.type in ("exit", "pause") and not self._anew
        return replace(event, text=self._text(event))

    def _text(self, event: Event) -> str:
        if event.type in ("stdout", "stderr"):
            decoder = self._decoders.setdefault(event.type, codecs.getincrementaldecoder("utf-8")("replace"))
            return decoder.decode(event.data)
        if event.type in ("gap", "exit"):  # the ends of characters will not come
            text = "".join(decoder.decode(b"", True) for decoder in self._decoders.values())
            self._decoders.clear()
            return text
        return ""


class AsyncEvents(Feed[Dict[str, Any]]):
    """Iterates over what happens to the sessions, or to the approvals: each event is the API's JSON.

    after is the number (seq) of the last event that was seen.
    """

    most = 16 << 20

    def __init__(self, transport: Transport, after: Optional[int], agent: Optional[str], once: bool, *path: str) -> None:
        super().__init__(transport)
        self.after, self._agent, self._whole, self._path = after, agent, once, path
        self._forget()

    async def __aenter__(self) -> "AsyncEvents":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _call(self) -> Call:
        self._forget()
        query: Query = {"after": self.after, "agent": self._agent, "once": self._whole}
        return Call("GET", self._path, query, accept="text/event-stream")

    def _forget(self) -> None:
        """What is known of an event before its end, which is an empty line."""
        self._kind, self._data, self._id = b"", bytearray(), self.after

    def _understand(self, line: bytes) -> Optional[Dict[str, Any]]:
        name, _, value = line.rstrip(b"\r").partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        try:
            if name == b"id":
                if not value.isdigit():
                    raise ValueError("no number of an event")
                self._id = int(value)
            elif name == b"event":
                self._kind = value
            elif name == b"data":
                self._data += value + b"\n"
                if len(self._data) > self.most:
                    raise ValueError(f"more than {self.most} bytes")
            elif not line.strip():
                event: Optional[Dict[str, Any]] = json.loads(self._data) if self._data else None
                if event and self._kind.decode() == MISSED:
                    self._id = int(event["next"])
                    event = {"type": MISSED, "seq": self._id}
                self.after = self._id
                self._forget()
                return event
        except (ValueError, KeyError, TypeError, RecursionError) as e:
            raise InternalError(f"an event that is not understood: {line[:100]!r}: {e}") from e
        return None
