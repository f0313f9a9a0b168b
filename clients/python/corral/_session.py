"""A session: a command that outlives the call that started it."""

from __future__ import annotations

import codecs
import json
import time
from dataclasses import dataclass
from typing import Any, Dict, Optional, Union

from ._events import TYPE, AsyncStream
from ._http import Call, NoAnswer, Patience, Transport
from .errors import CorralError, EndedError, LostError, NotFoundError, UnavailableError

_WAIT_STEP = 300.0  # seconds of one request that waits; the gateway allows 600


@dataclass(frozen=True)
class Result:
    """How a command ended, and its output."""

    session: Dict[str, Any]  # status of the session
    exit_code: Optional[int]  # None: a signal ended it, or it is not known how it ended
    signal: Optional[int]
    signal_name: Optional[str]
    stdout: bytes
    stderr: bytes
    output: bytes  # both, in the order in which they came
    omitted: int  # bytes that are not in output

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    @property
    def text(self) -> str:
        """output, with U+FFFD for what is not UTF-8. A character that was cut off at the end is left out."""
        return codecs.getincrementaldecoder("utf-8")("replace").decode(self.output, self.omitted == 0)


def log_call(status: Dict[str, Any], offset: int, limit: Optional[int] = None, follow: bool = True) -> Call:
    query: Dict[str, Union[str, int, bool, None]] = {"offset": offset, "follow": follow, "limit": limit}
    return Call("GET", ("sessions", status["sessionId"], "log"), query, accept=TYPE, header=_life(status))


def _life(status: Dict[str, Any]) -> Dict[str, str]:
    """Says which session is meant: another may have the ID by now."""
    started = status.get("startedAt")
    return {"Corral-Started": started} if started else {}


class AsyncSession:
    """A session of the gateway. Its methods raise NotFoundError when it was removed."""

    def __init__(self, transport: Transport, info: Dict[str, Any]) -> None:
        self._transport = transport
        self.info = info  # its status when it was last asked for
        self.id = str(info["sessionId"])

    def __repr__(self) -> str:
        return f"<corral.AsyncSession {self.id}>"

    async def _json(self, method: str, *path: str, **more: Any) -> Any:
        return await self._transport.json(method, "sessions", self.id, *path, header=_life(self.info), **more)

    async def status(self) -> Dict[str, Any]:
        """The session now. status["status"] is running, completed, failed or unknown."""
        self.info = await self._json("GET")
        return self.info

    def log(self, offset: int = 0, *, follow: bool = True, limit: int = 0) -> AsyncStream:
        """The output from an offset as events: to the end of the session, or without
        follow what there is now. limit: at most so many bytes."""
        return AsyncStream(self._transport, log_call(self.info, offset, limit, follow),
                      lambda status, at, left: log_call(status, at, left, follow), self.info, offset, follow, limit)

    async def wait(self, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Waits for the end, and returns the status. TimeoutError if it runs on."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            step = _WAIT_STEP if until is None else max(0.0, min(_WAIT_STEP, until - time.monotonic()))
            self.info = await self._json("GET", "wait", query={"timeout": f"{step:.3f}"}, timeout=step + 60)
            if self.info["status"] != "running":
                return self.info
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"session {self.id} still runs after {timeout} seconds")

    async def result(self, *, max_output: int = 16 << 20) -> Result:
        """Waits for the end, and returns it with the output from the beginning."""
        return await collect(self.log(), max_output)

    async def kill(self) -> Dict[str, Any]:
        """Ends the session: SIGTERM, and SIGKILL after a grace."""
        try:
            self.info = await self._json("POST", "kill")
        except EndedError as e:
            if not e._repeated:
                raise
            return await self.status()  # it was ended by a try whose answer was cut
        return self.info

    async def signal(self, signal: Union[str, int]) -> None:
        """Sends a signal, such as "INT", to the whole process tree."""
        await self._json("POST", "signal", body={"signal": str(signal)}, once=True)

    async def resize(self, rows: int, cols: int) -> None:
        """Sets the size of the terminal."""
        await self._json("POST", "resize", body={"rows": rows, "cols": cols})

    async def write(self, data: bytes) -> None:
        """Writes to standard input. On an error, its attribute written is how many bytes the
        command took; LostError: that is not known."""
        await self._write(data, eof=False)

    async def close_stdin(self) -> None:
        """Ends standard input."""
        await self._write(b"", eof=True)

    async def _write(self, data: bytes, eof: bool) -> None:
        patience, done = Patience(self._transport), 0
        while True:
            call = Call("POST", ("sessions", self.id, "stdin"), {"eof": eof}, data[done:],
                        kind="application/octet-stream", header=_life(self.info))
            try:
                answer = await self._transport.open(call)
                try:
                    taken = int(json.loads(await answer.read())["written"])
                except OSError as e:
                    raise NoAnswer(e, sent=True) from e
                finally:
                    answer.close()
                if taken != len(data) - done:
                    raise LostError(f"the gateway took {taken} bytes of {len(data) - done}", written=taken)
                return
            except NoAnswer as e:
                if isinstance(e.cause, CorralError):
                    done += e.cause.written
                elif e.sent and not eof:
                    raise self._transport.lost(call, e.cause) from e
                if not (e.away or self._transport.reached) or not await patience.wait():
                    error = self._transport.unreachable(e)
                    error.written = done
                    raise error from e
            except CorralError as e:
                e.written += done
                raise
            except (ValueError, KeyError, TypeError, RecursionError) as e:
                raise self._transport.lost(call, e) from e

    async def remove(self, *, force: bool = False) -> None:
        """Forgets an ended session, with its output. force: kills it first if it runs."""
        try:
            await self._json("DELETE", query={"force": force})
        except NotFoundError:
            pass  # removed before, perhaps by a try whose answer was cut


async def collect(stream: AsyncStream, max_output: int) -> Result:
    """Reads a stream to its end."""
    parts: Dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    output, omitted = bytearray(), 0
    async with stream:
        async for event in stream:
            if event.type == "exit":
                return Result(event.session or {}, event.exit_code, event.signal, event.signal_name,
                              bytes(parts["stdout"]), bytes(parts["stderr"]), bytes(output), omitted)
            if event.type == "gap":
                omitted += event.next - event.offset
            elif event.type in parts:
                kept = event.data[: max(0, max_output - len(output))]
                omitted += len(event.data) - len(kept)
                output += kept
                parts[event.type] += kept
    raise UnavailableError("the output ended before the command")

