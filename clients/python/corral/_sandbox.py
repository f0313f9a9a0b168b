"""A sandbox of the gateway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

from ._files import AsyncFiles
from ._http import Call, Transport
from .errors import InvalidError


@dataclass(frozen=True)
class Fetched:
    """The answer of a program in a sandbox."""

    status: int
    headers: Dict[str, str]
    body: bytes


class AsyncSandbox:
    """A sandbox, by its name. It is asked about when a method is called."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._transport, self.name = transport, name
        self.files = AsyncFiles(transport, name)

    def __repr__(self) -> str:
        return f"<corral.AsyncSandbox {self.name}>"

    async def _json(self, method: str, *path: str, **more: Any) -> Any:
        return await self._transport.json(method, "sandboxes", self.name, *path, **more)

    async def info(self) -> Dict[str, Any]:
        """Its owner, state, engine, image and limits."""
        info: Dict[str, Any] = await self._json("GET")
        return info

    async def stats(self) -> Dict[str, Any]:
        """One measurement of what it uses."""
        stats: Dict[str, Any] = await self._json("GET", "stats")
        return stats

    async def log(self, *, all: bool = False) -> Dict[str, Any]:
        """What happened to its container."""
        log: Dict[str, Any] = await self._json("GET", "log", query={"all": all})
        return log

    async def address(self, port: int) -> Dict[str, Any]:
        """The address of a port: url, and the token that opens all ports of the sandbox.
        NotFoundError if the gateway gives ports no host names (gateway.domain)."""
        address: Dict[str, Any] = await self._json("GET", "address", query={"port": port})
        return address

    async def fetch(self, port: int, path: str = "/", *, method: str = "GET", body: Optional[bytes] = None,
                    header: Optional[Mapping[str, str]] = None) -> Fetched:
        """Sends one request of HTTP to what listens on a port of the sandbox.

        path may have a query. Any status is an answer, also that of the gateway when
        nothing listens there (502). The answer has 64 MiB at most.
        """
        given = dict(header or {})
        if any("\r" in text or "\n" in text for pair in given.items() for text in pair):
            raise InvalidError("a header with a line break")
        call = Call(method, ("sandboxes", self.name, "ports", str(port)), {}, body, accept="*/*", header=given,
                    once=method not in ("GET", "HEAD"), rest=path if path.startswith("/") else "/" + path)
        data, answer = await self._transport.bytes(call)
        return Fetched(answer.status, dict(answer.headers.items()), data)

    async def recreate(self) -> Dict[str, Any]:
        """Makes a new container. Commands that run go on in the old one."""
        made: Dict[str, Any] = await self._json("POST", "recreate", once=True)
        return made

    async def remove(self) -> None:
        """Ends its commands, and removes it with its private workspace."""
        await self._json("DELETE", once=True)
