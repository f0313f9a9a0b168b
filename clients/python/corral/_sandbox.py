"""A sandbox of the gateway."""

from __future__ import annotations

from typing import Any, Dict

from ._files import Files
from ._http import Transport


class Sandbox:
    """A sandbox, by its name. It is asked about when a method is called."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._transport, self.name = transport, name
        self.files = Files(transport, name)

    def __repr__(self) -> str:
        return f"<corral.Sandbox {self.name}>"

    def _json(self, method: str, *path: str, **more: Any) -> Any:
        return self._transport.json(method, "sandboxes", self.name, *path, **more)

    def info(self) -> Dict[str, Any]:
        """Its owner, state, engine, image and limits."""
        info: Dict[str, Any] = self._json("GET")
        return info

    def stats(self) -> Dict[str, Any]:
        """One measurement of what it uses."""
        stats: Dict[str, Any] = self._json("GET", "stats")
        return stats

    def log(self, *, all: bool = False) -> Dict[str, Any]:
        """What happened to its container."""
        log: Dict[str, Any] = self._json("GET", "log", query={"all": all})
        return log

    def recreate(self) -> Dict[str, Any]:
        """Makes a new container. Commands that run go on in the old one."""
        made: Dict[str, Any] = self._json("POST", "recreate", once=True)
        return made

    def remove(self) -> None:
        """Ends its commands, and removes it with its private workspace."""
        self._json("DELETE", once=True)
