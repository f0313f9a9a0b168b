"""A sandbox of Corral as the backend of LangChain's deepagents, which must be installed.

    from corral.adapters.deepagents import CorralBackend

    agent = create_deep_agent(model=..., backend=CorralBackend(agent="research", sandbox="research"))

Commands go through the gateway's policy, and run in the sandbox. The tools of deepagents for
files need python3 and grep there.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from .._client import AsyncClient
from .._net import now
from .._sync import Client
from ..errors import ApprovalPendingError, CorralError, DeniedError, InvalidError, NotFoundError


class CorralBackend(BaseSandbox):
    """Runs the commands of one agent in its sandbox, and has the files there.

    timeout bounds, in seconds, a command for which the model sets none; max_output is how many
    bytes of its output the model may get. The other options are those of Client.
    """

    def __init__(self, *, sandbox: str = "main", timeout: float = 1800.0, max_output: int = 1 << 20, **client: Any) -> None:
        self._sandbox, self._timeout, self._max_output = sandbox, timeout, max_output
        self._blocking: AsyncClient = Client(**client)._inner
        self._async = AsyncClient(**client)

    @property
    def id(self) -> str:
        return self._sandbox

    def execute(self, command: str, *, timeout: Optional[int] = None) -> ExecuteResponse:
        return now(self._execute(self._blocking, command, timeout))

    async def aexecute(self, command: str, *, timeout: Optional[int] = None) -> ExecuteResponse:
        return await self._execute(self._async, command, timeout)

    def upload_files(self, files: List[Tuple[str, bytes]]) -> List[FileUploadResponse]:
        return now(self._upload(self._blocking, files))

    async def aupload_files(self, files: List[Tuple[str, bytes]]) -> List[FileUploadResponse]:
        return await self._upload(self._async, files)

    def download_files(self, paths: List[str]) -> List[FileDownloadResponse]:
        return now(self._download(self._blocking, paths))

    async def adownload_files(self, paths: List[str]) -> List[FileDownloadResponse]:
        return await self._download(self._async, paths)

    async def _execute(self, client: AsyncClient, command: str, timeout: Optional[int]) -> ExecuteResponse:
        limit = self._timeout if timeout is None else timeout
        try:
            r = await client.run(command, host="sandbox", merge_stderr=True, timeout=limit or None, max_output=self._max_output)
        except (ApprovalPendingError, DeniedError, InvalidError) as e:
            return ExecuteResponse(f"Nothing ran: {e}", 126)  # for the model to read
        output = r.text
        if r.session.get("reason") == "timeout":
            output += f"\n[ended after {limit:g} seconds]"
        code = r.exit_code if r.signal is None else 128 + r.signal
        return ExecuteResponse(output, code, r.omitted > 0)

    async def _wake(self, client: AsyncClient) -> None:
        """A sandbox that is not there is made for a command only."""
        await client.run("true", host="sandbox")

    async def _upload(self, client: AsyncClient, files: List[Tuple[str, bytes]]) -> List[FileUploadResponse]:
        await self._wake(client)
        answers = []
        for path, data in files:
            try:
                await client.sandbox(self._sandbox).files.write(path, data, parents=True)
                answers.append(FileUploadResponse(path))
            except CorralError as e:
                answers.append(FileUploadResponse(path, _name(e)))
        return answers

    async def _download(self, client: AsyncClient, paths: List[str]) -> List[FileDownloadResponse]:
        await self._wake(client)
        answers = []
        for path in paths:
            try:
                answers.append(FileDownloadResponse(path, await client.sandbox(self._sandbox).files.read(path)))
            except CorralError as e:
                answers.append(FileDownloadResponse(path, None, _name(e)))
        return answers


def _name(e: CorralError) -> str:
    """The error as deepagents calls it, if it does."""
    if isinstance(e, NotFoundError):
        return "file_not_found"
    if isinstance(e, DeniedError):
        return "permission_denied"
    return str(e)
