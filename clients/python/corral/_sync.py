"""The client for programs without an event loop: the same calls, each of which blocks."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Coroutine, Dict, Iterator, List, Optional, TypeVar

from ._client import AsyncClient, Command
from ._events import AsyncEvents, AsyncStream, Event
from ._files import AsyncFiles
from ._net import Blocking, now
from ._sandbox import AsyncSandbox
from ._session import AsyncSession

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")

T = TypeVar("T")


def _blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """A method that runs that of the class beneath to its end."""

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return now(method(self._inner, *args, **kwargs))

    return call


class Stream:
    """Iterates over a session's events. To leave it before its end, use it in with, or close it."""

    def __init__(self, inner: AsyncStream) -> None:
        self._inner = inner

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        try:
            return now(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    close = _blocking(AsyncStream.close)

    @property
    def session(self) -> Optional[Dict[str, Any]]:
        """Known after the first event."""
        return self._inner.session

    @property
    def offset(self) -> int:
        """Where the rest begins."""
        return self._inner.offset


class Events:
    """Iterates over what happens to the sessions, or to the approvals: each event is the API's JSON."""

    def __init__(self, inner: AsyncEvents) -> None:
        self._inner = inner

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return self

    def __next__(self) -> Dict[str, Any]:
        try:
            return now(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> "Events":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    close = _blocking(AsyncEvents.close)

    @property
    def after(self) -> Optional[int]:
        """The number of the last event."""
        return self._inner.after


class Session:
    """A session of the gateway. Its methods raise NotFoundError when it was removed."""

    def __init__(self, inner: AsyncSession) -> None:
        self._inner = inner
        self.id = inner.id

    def __repr__(self) -> str:
        return f"<corral.Session {self.id}>"

    @property
    def info(self) -> Dict[str, Any]:
        """Its status when it was last asked for."""
        return self._inner.info

    def log(self, offset: int = 0, *, follow: bool = True, limit: int = 0) -> Stream:
        """The output from an offset as events: to the end of the session, or without
        follow what there is now. limit: at most so many bytes."""
        return Stream(self._inner.log(offset, follow=follow, limit=limit))

    status = _blocking(AsyncSession.status)
    wait = _blocking(AsyncSession.wait)
    result = _blocking(AsyncSession.result)
    kill = _blocking(AsyncSession.kill)
    signal = _blocking(AsyncSession.signal)
    resize = _blocking(AsyncSession.resize)
    write = _blocking(AsyncSession.write)
    close_stdin = _blocking(AsyncSession.close_stdin)
    remove = _blocking(AsyncSession.remove)


class Files:
    """The files of a sandbox of the agent. Paths are absolute, or relative to the workspace."""

    def __init__(self, inner: AsyncFiles) -> None:
        self._inner = inner

    read = _blocking(AsyncFiles.read)
    write = _blocking(AsyncFiles.write)
    stat = _blocking(AsyncFiles.stat)
    mkdir = _blocking(AsyncFiles.mkdir)
    remove = _blocking(AsyncFiles.remove)

    def list(self, path: str = ".") -> Iterator[Dict[str, Any]]:
        """What is in a directory."""
        entries = self._inner.list(path).__aiter__()

        async def entry() -> Dict[str, Any]:
            return await entries.__anext__()

        while True:
            try:
                yield now(entry())
            except StopAsyncIteration:
                return


class Sandbox:
    """A sandbox, by its name. It is asked about when a method is called."""

    def __init__(self, inner: AsyncSandbox) -> None:
        self._inner = inner
        self.name = inner.name
        self.files = Files(inner.files)

    def __repr__(self) -> str:
        return f"<corral.Sandbox {self.name}>"

    info = _blocking(AsyncSandbox.info)
    stats = _blocking(AsyncSandbox.stats)
    log = _blocking(AsyncSandbox.log)
    address = _blocking(AsyncSandbox.address)
    fetch = _blocking(AsyncSandbox.fetch)
    recreate = _blocking(AsyncSandbox.recreate)
    remove = _blocking(AsyncSandbox.remove)


class _BlockingClient(AsyncClient):
    _network = Blocking()


class Client:
    """Speaks to one gateway, for one agent. It may be used by several threads.

    Without socket and url it looks for the gateway as the program corral does: at
    CORRAL_URL, or else in the state directory (state_dir, CORRAL_STATE_DIR, or the usual
    one). Over TCP the token is needed, which is in the file gateway.token there, or the
    secret of a key (corral keys create). fingerprint is the SHA-256 of the gateway's
    certificate, if nobody signed it that this machine trusts. Without an agent it is main,
    or the only one that the key is for.

    retry is for how many seconds a gateway that was reached may be away before a call
    fails; timeout is how long it may be silent in a call.
    """

    def __init__(self, *, socket: str = "", url: str = "", token: str = "", fingerprint: str = "",
                 state_dir: Optional[str] = None, agent: str = "", session: str = "", sender: str = "", retry: float = 30.0, timeout: float = 600.0) -> None:
        self._inner = _BlockingClient(socket=socket, url=url, token=token, fingerprint=fingerprint, state_dir=state_dir, agent=agent,
                                      session=session, sender=sender, retry=retry, timeout=timeout)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, command: Command, **options: Any) -> Session:
        """Starts a command in the background. See AsyncClient.start."""
        return Session(now(self._inner.start(command, **options)))

    def stream(self, command: Command, **options: Any) -> Stream:
        """Starts a command when the first event is asked for, and returns its events: started,
        its output, exit."""
        return Stream(self._inner.stream(command, **options))

    def sessions(self, *, all_agents: bool = False) -> List[Session]:
        """The sessions, the newest first. info of each is its status."""
        return [Session(session) for session in now(self._inner.sessions(all_agents=all_agents))]

    def session(self, id: str) -> Session:
        """The session of that ID."""
        return Session(now(self._inner.session(id)))

    def events(self, after: Optional[int] = None, *, all_agents: bool = False, once: bool = False) -> Events:
        """What happens to the sessions: after the event of that number (0: all that is kept),
        or else from now on. once: only the events that there are."""
        return Events(self._inner.events(after, all_agents=all_agents, once=once))

    def approval_changes(self, after: Optional[int] = None, *, agent: str = "", once: bool = False) -> Events:
        """Approvals as they are made and answered, of one agent or of all: after the change of
        that number (0: all that is kept), or else from now on. once: only those that there are."""
        return Events(self._inner.approval_changes(after, agent=agent, once=once))

    def sandbox(self, name: str) -> Sandbox:
        """The sandbox of that name, with its files."""
        return Sandbox(self._inner.sandbox(name))

    close = _blocking(AsyncClient.close)
    ready = _blocking(AsyncClient.ready)
    run = _blocking(AsyncClient.run)
    tool = _blocking(AsyncClient.tool)
    explain = _blocking(AsyncClient.explain)
    sandboxes = _blocking(AsyncClient.sandboxes)
    approvals = _blocking(AsyncClient.approvals)
    approval = _blocking(AsyncClient.approval)
    answer = _blocking(AsyncClient.answer)
    deny_all = _blocking(AsyncClient.deny_all)
    nodes = _blocking(AsyncClient.nodes)
    node = _blocking(AsyncClient.node)
    node_requests = _blocking(AsyncClient.node_requests)
    approve_node = _blocking(AsyncClient.approve_node)
    reject_node = _blocking(AsyncClient.reject_node)
