"""Run commands in a Corral gateway, and read their output.

    import corral

    with corral.Client() as client:
        result = client.run("make test")
        print(result.exit_code, result.text)

A Client finds the gateway as the program corral does, and speaks HTTP with it. It goes on
by itself when the gateway restarts: output is read on from the offset that was reached, so
no byte is lost or read twice. It is synchronous, and may be used by several threads.
"""

from ._client import Client
from ._events import Event, Stream
from ._files import Files
from ._sandbox import Sandbox
from ._session import Result, Session
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
    RunningError,
    StdinClosedError,
    TooLargeError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedError,
)

__version__ = "0.1.0.dev0"

__all__ = [
    "ApprovalPendingError",
    "BadDirectoryError",
    "Client",
    "ConflictError",
    "CorralError",
    "DeniedError",
    "EndedError",
    "Event",
    "Files",
    "InternalError",
    "InvalidError",
    "LostError",
    "NotFoundError",
    "Result",
    "RunningError",
    "Sandbox",
    "Session",
    "StdinClosedError",
    "Stream",
    "TooLargeError",
    "UnauthorizedError",
    "UnavailableError",
    "UnsupportedError",
]
