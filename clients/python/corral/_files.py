"""Files of a sandbox, from outside."""

from __future__ import annotations

from typing import Any, AsyncIterator, Dict, Optional

from ._http import Call, Query, Transport, parse_json


class AsyncFiles:
    """The files of a sandbox of the agent. Paths are absolute, or relative to the workspace."""

    def __init__(self, transport: Transport, sandbox: str) -> None:
        self._transport, self._sandbox = transport, sandbox

    def _call(self, method: str, path: str, *under: str, query: Optional[Query] = None, body: Optional[bytes] = None, once: bool = False) -> Call:
        return Call(method, ("sandboxes", self._sandbox, "files", *under), {"path": path, **(query or {})}, body,
                    kind="application/octet-stream", once=once)

    async def _json(self, call: Call) -> Any:
        text, _ = await self._transport.bytes(call)
        return parse_json(text)

    async def read(self, path: str, *, offset: int = 0, limit: int = 0) -> bytes:
        """The content of a file: all of it, or at most limit bytes. At most 64 MiB."""
        data, _ = await self._transport.bytes(self._call("GET", path, "content", query={"offset": offset or None, "limit": limit or None}))
        return data

    async def write(self, path: str, data: bytes, *, mode: Optional[int] = None, parents: bool = False, new: bool = False) -> Dict[str, Any]:
        """Writes a file as a whole. new: it must not be there."""
        query: Query = {"mode": f"{mode:o}" if mode is not None else None, "parents": parents, "new": new}
        info: Dict[str, Any] = await self._json(self._call("PUT", path, "content", query=query, body=data, once=new))
        return info

    async def list(self, path: str = ".") -> AsyncIterator[Dict[str, Any]]:
        """What is in a directory."""
        after: Optional[str] = None
        while True:
            page = await self._json(self._call("GET", path, query={"after": after}))
            for entry in page["entries"]:
                yield entry
            after = page.get("next")
            if not after:
                return

    async def stat(self, path: str) -> Dict[str, Any]:
        """Describes a file."""
        info: Dict[str, Any] = await self._json(self._call("GET", path, "stat"))
        return info

    async def mkdir(self, path: str, *, mode: Optional[int] = None, parents: bool = False) -> None:
        """Makes a directory. parents: also those above it, and it may be there."""
        query: Query = {"mode": f"{mode:o}" if mode is not None else None, "parents": parents}
        await self._json(self._call("POST", path, "directory", query=query, once=not parents))

    async def remove(self, path: str, *, all: bool = False) -> None:
        """Removes a file, or with all a directory and what is in it."""
        await self._json(self._call("DELETE", path, query={"all": all}, once=True))
