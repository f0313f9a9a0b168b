"""Run commands in a Corral gateway, and read their output.

    import corral

    with corral.Client() as client:
        result = client.run("make test")
        print(result.exit_code, result.text)

A Client finds the gateway as the program corral does, and speaks HTTP with it. It goes on
by itself when the gateway restarts: output is read on from the offset that was reached, so
no byte is lost or read twice. It is synchronous, and may be used by several threads. An
AsyncClient has the same methods for asyncio.
"""

from ._client import AsyncClient
from ._events import AsyncEvents, AsyncStream, Event
from ._files import AsyncFiles
from ._sandbox import AsyncSandbox, Fetched
from ._session import AsyncSession, Result
from ._sync import Client, Events, Files, Sandbox, Session, Stream
from .errors import (
    ApprovalPendingError,
    BadDirectoryError,
    ConflictError,
    CorralError,
    DeniedError,
    EndedError,
    InternalError,
    InvalidError,
    LostError,
    NotFoundError,
    NotListeningError,
    RunningError,
    StdinClosedError,
    TooLargeError,
    TooManyError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedError,
)

__version__ = "0.1.0.dev0"

__all__ = [
    "ApprovalPendingError",
    "AsyncClient",
    "AsyncEvents",
    "AsyncFiles",
    "AsyncSandbox",
    "AsyncSession",
    "AsyncStream",
    "BadDirectoryError",
    "Client",
    "ConflictError",
    "CorralError",
    "DeniedError",
    "EndedError",
    "Event",
    "Events",
    "Fetched",
    "Files",
    "InternalError",
    "InvalidError",
    "LostError",
    "NotFoundError",
    "NotListeningError",
    "Result",
    "RunningError",
    "Sandbox",
    "Session",
    "StdinClosedError",
    "Stream",
    "TooLargeError",
    "TooManyError",
    "UnauthorizedError",
    "UnavailableError",
    "UnsupportedError",
]
