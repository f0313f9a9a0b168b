"""What a sandbox has to implement; deepagents makes ls, read, write, edit, grep and glob of it."""

from __future__ import annotations

import abc
from typing import List, Optional, Tuple

from .protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse


class BaseSandbox(abc.ABC):
    @property
    @abc.abstractmethod
    def id(self) -> str: ...

    @abc.abstractmethod
    def execute(self, command: str, *, timeout: Optional[int] = None) -> ExecuteResponse: ...

    @abc.abstractmethod
    def upload_files(self, files: List[Tuple[str, bytes]]) -> List[FileUploadResponse]: ...

    @abc.abstractmethod
    def download_files(self, paths: List[str]) -> List[FileDownloadResponse]: ...
