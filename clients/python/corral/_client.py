"""The client of one gateway."""

from __future__ import annotations

import base64
import json
import secrets
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from ._events import TYPE, AsyncEvents, AsyncStream
from ._http import Call, Transport
from ._net import Asyncio, Network
from ._place import Place, find
from ._sandbox import AsyncSandbox
from ._session import AsyncSession, Result, collect, log_call
from .errors import EndedError, InvalidError

Command = Union[str, Sequence[str]]


class AsyncClient:
    """Speaks to one gateway, for one agent.

    Without socket and url it looks for the gateway as the program corral does: at
    CORRAL_URL, or else in the state directory (state_dir, CORRAL_STATE_DIR, or the usual
    one). Over TCP the token is needed, which is in the file gateway.token there, or the
    secret of a key (corral keys create). fingerprint is the SHA-256 of the gateway's
    certificate, if nobody signed it that this machine trusts. Without an agent it is main,
    or the only one that the key is for.

    retry is for how many seconds a gateway that was reached may be away before a call
    fails; timeout is how long it may be silent in a call. A task that is cancelled ends its
    call at once, and closes the connection. What was started goes on.
    """

    _network: Network = Asyncio()

    def __init__(self, *, socket: str = "", url: str = "", token: str = "", fingerprint: str = "",
                 state_dir: Optional[str] = None, agent: str = "", session: str = "", sender: str = "", retry: float = 30.0, timeout: float = 600.0) -> None:
        if socket and url:
            raise InvalidError("both a socket and a URL were given", hint="a gateway is at one of them")
        place = Place(socket, url, token, fingerprint) if socket or url else find(state_dir, token, fingerprint)
        self._transport = Transport(self._network, place, agent=agent, session=session, sender=sender, retry=retry, timeout=timeout)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Nothing is open between calls. Commands and streams go on."""

    async def ready(self) -> None:
        """UnavailableError if the gateway takes no commands now."""
        await self._transport.json("GET", "ready")

    # Commands

    async def run(self, /, command: Command, *, stdin: bytes = b"", max_output: int = 16 << 20, **options: Any) -> Result:
        """Runs a command to its end. A command that fails is no error: look at exit_code.

        Of the output at most max_output bytes are kept. stdin is all of its input. The
        options are those of start.
        """
        if not stdin:
            return await collect(self.stream(command, **options), max_output)
        session = await self.start(command, stdin=True, **options)
        try:
            await session.write(stdin)
            await session.close_stdin()
        except EndedError:
            pass  # it did not read all of it
        return await session.result(max_output=max_output)

    async def start(self, command: Command, **options: Any) -> AsyncSession:
        """Starts a command in the background.

        command is shell text, or a list of arguments. The options are id, workdir, env, stdin,
        tty ({"rows": 24, "cols": 80}), merge_stderr, timeout and grace (seconds), host, node,
        elevated, security, ask, approval, notify_on_exit, path_prepend and log ({"head": BYTES,
        "tail": BYTES}). With an id of your own, to start it again returns the same session.
        """
        body = _start(command, options)
        return AsyncSession(self._transport, await self._transport.json("POST", "sessions", body=body))

    def stream(self, command: Command, **options: Any) -> AsyncStream:
        """Starts a command, and returns its events: started, its output, exit."""
        call = Call("POST", ("sessions",), {}, json.dumps(_start(command, options)).encode(), accept=TYPE)
        return AsyncStream(self._transport, call, log_call)

    async def tool(self, name: str, /, **arguments: Any) -> Dict[str, Any]:
        """Calls a tool, such as exec or process, as an agent does."""
        path = (name,) if name in ("exec", "process") else ("tools", name)
        result: Dict[str, Any] = await self._transport.json("POST", *path, body=arguments, once=True)
        return result

    async def explain(self, /, command: Command, **options: Any) -> Dict[str, Any]:
        """Says whether a command would run. Nothing is started."""
        body = _start(command, options)
        del body["id"]
        report: Dict[str, Any] = await self._transport.json("POST", "explain", body=body)
        return report

    # Sessions

    async def sessions(self, *, all_agents: bool = False) -> List[AsyncSession]:
        """The sessions, the newest first. info of each is its status."""
        answer = await self._transport.json("GET", "sessions", query={"agent": "*" if all_agents else None})
        return [AsyncSession(self._transport, info) for info in answer["sessions"]]

    async def session(self, id: str) -> AsyncSession:
        """The session of that ID."""
        return AsyncSession(self._transport, await self._transport.json("GET", "sessions", id))

    def events(self, after: Optional[int] = None, *, all_agents: bool = False, once: bool = False) -> AsyncEvents:
        """What happens to the sessions: after the event of that number (0: all that is kept),
        or else from now on. once: only the events that there are."""
        return AsyncEvents(self._transport, after, "*" if all_agents else None, once, "events")

    # Sandboxes

    async def sandboxes(self) -> List[Dict[str, Any]]:
        """The sandboxes of all agents."""
        found: List[Dict[str, Any]] = (await self._transport.json("GET", "sandboxes"))["sandboxes"]
        return found

    def sandbox(self, name: str) -> AsyncSandbox:
        """The sandbox of that name, with its files."""
        return AsyncSandbox(self._transport, name)

    # Approvals

    async def approvals(self, *, state: str = "", agent: str = "") -> List[Dict[str, Any]]:
        """What commands wait for (state="pending"), or waited for."""
        found: List[Dict[str, Any]] = (await self._transport.json("GET", "approvals", query={"state": state, "agent": agent}))["approvals"]
        return found

    def approval_changes(self, after: Optional[int] = None, *, agent: str = "", once: bool = False) -> AsyncEvents:
        """Approvals as they are made and answered, of one agent or of all: after the change of
        that number (0: all that is kept), or else from now on. once: only those that there are."""
        return AsyncEvents(self._transport, after, agent or None, once, "approvals", "changes")

    async def approval(self, ref: str) -> Dict[str, Any]:
        """An approval, by its ID, its slug, or a beginning of one."""
        found: Dict[str, Any] = await self._transport.json("GET", "approvals", ref)
        return found

    async def answer(self, ref: str, decision: str, *, scope: str = "", by: str = "") -> Dict[str, Any]:
        """Answers an approval: allow-once, allow-always or deny."""
        body = _without_empty({"decision": decision, "scope": scope, "by": by})
        found: Dict[str, Any] = await self._transport.json("POST", "approvals", ref, body=body, once=True)
        return found

    async def deny_all(self, *, agent: str = "", by: str = "") -> List[Dict[str, Any]]:
        """Denies all pending approvals, or all of one agent."""
        body = _without_empty({"decision": "deny", "agent": agent, "by": by})
        denied: List[Dict[str, Any]] = (await self._transport.json("POST", "approvals", body=body))["approvals"]
        return denied

    # Nodes

    async def nodes(self) -> List[Dict[str, Any]]:
        """The paired nodes. NotFoundError if the gateway does not listen for any."""
        found: List[Dict[str, Any]] = (await self._transport.json("GET", "nodes"))["nodes"]
        return found

    async def node(self, ref: str) -> Dict[str, Any]:
        """A node, by its ID, key or name."""
        found: Dict[str, Any] = await self._transport.json("GET", "nodes", ref)
        return found

    async def node_requests(self) -> List[Dict[str, Any]]:
        """The machines that ask to be nodes."""
        found: List[Dict[str, Any]] = (await self._transport.json("GET", "nodes", "requests"))["requests"]
        return found

    async def approve_node(self, ref: str, *, name: str = "", labels: Optional[Mapping[str, str]] = None, by: str = "") -> Dict[str, Any]:
        """Makes a machine that asks a node."""
        body = _without_empty({"decision": "approve", "name": name, "labels": dict(labels or {}), "by": by})
        node: Dict[str, Any] = await self._transport.json("POST", "nodes", "requests", ref, body=body, once=True)
        return node

    async def reject_node(self, ref: str, *, by: str = "") -> None:
        """Turns a machine that asks away."""
        await self._transport.json("POST", "nodes", "requests", ref, body=_without_empty({"decision": "reject", "by": by}), once=True)


def _without_empty(body: Dict[str, Any]) -> Dict[str, Any]:
    return {k: v for k, v in body.items() if v}


# Options of start that have another name in JSON.
_NAMES = {"merge_stderr": "mergeStderr", "notify_on_exit": "notifyOnExit", "path_prepend": "pathPrepend"}
_OPTIONS = {
    "id", "workdir", "env", "stdin", "tty", "timeout", "grace", "log", "host", "node", "elevated", "security", "ask", "approval",
    *_NAMES,
}


def _start(command: Command, options: Mapping[str, Any]) -> Dict[str, Any]:
    """The body that starts a command. Text that is not UTF-8 (surrogates, as os.fsdecode
    makes them) goes into binary."""
    unknown = set(options) - _OPTIONS
    if unknown:
        raise TypeError(f"start has no option {', '.join(sorted(unknown))}")
    body: Dict[str, Any] = {_NAMES.get(k, k): v for k, v in options.items() if v is not None}
    body["id"] = body.get("id") or "py-" + secrets.token_hex(8)  # so that the start can be repeated
    if isinstance(command, str):
        body["command"] = command
    else:
        body["args"] = list(command)
    binary: Dict[str, Any] = {}
    for key in ("command", "workdir"):
        if key in body and not _is_text(body[key]):
            binary[key] = _base64(body.pop(key))
    for key in ("args", "pathPrepend"):
        if key in body and not all(_is_text(v) for v in body[key]):
            binary[key] = [_base64(v) for v in body.pop(key)]
    env = body.get("env")
    if env is not None and not all(_is_text(k) and _is_text(v) for k, v in env.items()):
        binary["env"] = [_base64(f"{k}={v}") for k, v in body.pop("env").items()]
    if binary:
        body["binary"] = binary
    return body


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _base64(value: str) -> str:
    return base64.b64encode(value.encode("utf-8", "surrogateescape")).decode("ascii")
