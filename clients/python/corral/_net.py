"""Connections to a gateway: those that block, and those of asyncio.

All else in this package is written once, as coroutines over a Network. Over Blocking such a
coroutine never waits for an event loop, and now() runs it as a plain function.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any, Awaitable, Coroutine, List, Protocol, Tuple, TypeVar, Union

from ._place import Place

_CONNECT = 10.0  # seconds
_PIECE = 64 << 10

T = TypeVar("T")
Data = Union[bytes, memoryview]


class Pipe(Protocol):
    """A connection. Its methods raise OSError, also after that many quiet seconds."""

    async def send(self, data: Data, quiet: float) -> None: ...

    async def receive(self, quiet: float) -> bytes:
        """What is there; empty at the end."""
        ...

    def close(self) -> None: ...


class Network(Protocol):
    async def connect(self, place: Place) -> Pipe: ...

    async def sleep(self, seconds: float) -> None: ...


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine whose network is Blocking."""
    try:
        coroutine.send(None)
    except StopIteration as e:
        result: T = e.value
        return result
    coroutine.close()
    raise RuntimeError("a blocking call waited for an event loop")


class BlockingPipe:
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def send(self, data: Data, quiet: float) -> None:
        self._sock.settimeout(quiet)
        self._sock.sendall(data)

    async def receive(self, quiet: float) -> bytes:
        self._sock.settimeout(quiet)
        return self._sock.recv(_PIECE)

    def close(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_RDWR)  # for a thread that waits
        except OSError:
            pass
        self._sock.close()

    def __del__(self) -> None:  # of a stream that is just dropped
        self._sock.close()


class Blocking:
    """Each step blocks the thread."""

    async def connect(self, place: Place) -> Pipe:
        if place.socket:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        else:
            sock = socket.create_connection((place.host, place.port), _CONNECT)
        try:
            if place.socket:
                sock.settimeout(_CONNECT)
                sock.connect(place.socket)
            else:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if place.tls is not None:
                secure = place.tls.wrap_socket(sock, server_hostname=place.host)
                sock = secure
                place.check(secure.getpeercert(binary_form=True))
        except BaseException:
            sock.close()
            raise
        return BlockingPipe(sock)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


_Streams = Tuple[asyncio.StreamReader, asyncio.StreamWriter]


class AsyncPipe:
    def __init__(self, streams: _Streams) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader, self._writer = streams
        self._silent = False
        self._errors = _late_errors(self._reader)

    async def send(self, data: Data, quiet: float) -> None:
        self._writer.write(data)
        await self._within(quiet, self._writer.drain())

    async def receive(self, quiet: float) -> bytes:
        piece = await self._within(quiet, self._reader.read(_PIECE))
        if not piece and self._errors:
            raise self._errors[0]
        return piece

    # asyncio.wait_for would need a task for each step, and may swallow a cancellation
    # before Python 3.12.
    async def _within(self, quiet: float, step: Awaitable[T]) -> T:
        timer = self._loop.call_later(quiet, self._silence)
        try:
            result = await step
        except OSError:
            if not self._silent:
                raise
        finally:
            timer.cancel()
        if self._silent:
            raise TimeoutError(f"nothing came for {quiet} seconds")
        return result

    def _silence(self) -> None:
        self._silent = True
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.transport.abort()

    def __del__(self) -> None:  # of a stream that is just dropped, in any thread
        if not self._writer.transport.is_closing() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_end, self._writer)


def _late_errors(reader: asyncio.StreamReader) -> List[Exception]:
    """Has an error of the connection come after what was received, as with BlockingPipe.
    An error of writing would else hide an answer that came before all was written."""
    errors: List[Exception] = []

    def fail(error: Exception) -> None:
        errors.append(error)
        reader.feed_eof()

    setattr(reader, "set_exception", fail)
    return errors


def _end(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


class Asyncio:
    """Each step waits in the event loop that runs."""

    async def connect(self, place: Place) -> Pipe:
        opening = asyncio.ensure_future(_open(place))
        pipe = None
        try:
            await asyncio.wait({opening}, timeout=_CONNECT)
            if not opening.done():
                raise TimeoutError(f"no connection in {_CONNECT} seconds")
            pipe = AsyncPipe(opening.result())
            return pipe
        finally:
            if pipe is None:
                opening.cancel()
                opening.add_done_callback(_abort)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def _open(place: Place) -> _Streams:
    if place.socket:
        return await asyncio.open_connection(sock=await _unix(place.socket))
    if place.tls is None:
        return await asyncio.open_connection(place.host, place.port)
    streams = await asyncio.open_connection(place.host, place.port, ssl=place.tls, server_hostname=place.host)
    try:
        place.check(streams[1].get_extra_info("ssl_object").getpeercert(binary_form=True))
    except BaseException:
        _end(streams[1])
        raise
    return streams


async def _unix(path: str) -> socket.socket:
    """asyncio takes a socket whose queue of connections is full for one that is connected."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        while True:
            try:
                sock.connect(path)
                return sock
            except BlockingIOError:
                await asyncio.sleep(0.01)
    except BaseException:
        sock.close()
        raise


def _abort(opening: "asyncio.Future[_Streams]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        _end(opening.result()[1])
