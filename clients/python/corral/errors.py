"""Errors of a gateway. docs/reference/http.md says what each code means."""

from __future__ import annotations

import json
from typing import Any, Dict, Type


class CorralError(Exception):
    """Any error that a gateway answers, or that keeps it from answering."""

    code = ""

    def __init__(self, message: str, *, hint: str = "", details: Any = None, status: int = 0, code: str = "", written: int = 0,
                 retry_after: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint  # what to do about it
        self.details = details  # more, as the gateway's JSON has it
        self.status = status  # of HTTP; 0: there was no answer
        self.code = code or type(self).code
        self.written = written  # bytes of input that the command took before the error
        self.retry_after = retry_after  # seconds after which to try again, where the gateway says it; else 0
        self._repeated = False  # an earlier try, whose answer was cut, may have been acted on

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InvalidError(CorralError):
    """The request is wrong. Correct it."""

    code = "invalid"


class BadDirectoryError(InvalidError):
    """The working directory is not there. Nothing ran."""

    code = "bad-directory"


class TooLargeError(InvalidError):
    """The request is too large."""

    code = "too-large"


class DeniedError(CorralError):
    """The command may not run. details is the decision, if a policy made it."""

    code = "denied"


class UnauthorizedError(DeniedError):
    """The token is missing or wrong."""

    code = "unauthorized"


class ApprovalPendingError(CorralError):
    """Nothing ran. It will when an operator approves it. details is the approval."""

    code = "approval-pending"

    @property
    def approval_id(self) -> str:
        return str(self.details.get("approvalId", "")) if isinstance(self.details, dict) else ""


class NotFoundError(CorralError):
    """There is no such thing."""

    code = "not-found"


class ConflictError(CorralError):
    """The ID belongs to another command, or there was another answer first."""

    code = "conflict"


class RunningError(CorralError):
    """The session runs, and that is not permitted."""

    code = "running"


class EndedError(CorralError):
    """The session has ended."""

    code = "ended"


class StdinClosedError(EndedError):
    """The command takes no input any more."""

    code = "stdin-closed"


class TooManyError(CorralError):
    """A quota of the key is used up. Nothing ran. See retry_after."""

    code = "too-many"


class UnsupportedError(CorralError):
    """The host cannot do that."""

    code = "unsupported"


class UnavailableError(CorralError):
    """The gateway, or the host, cannot be reached. Nothing ran; repeating is safe."""

    code = "unavailable"


class LostError(CorralError):
    """It is not known whether it was done. Repeating may do it twice."""

    code = "lost"


class NotListeningError(CorralError):
    """Nothing listens on that port of the sandbox."""

    code = "not-listening"


class InternalError(CorralError):
    """A defect. The gateway's log says more."""

    code = "internal"


def _kinds(of: Type[CorralError]) -> Dict[str, Type[CorralError]]:
    kinds = {of.code: of}
    for kind in of.__subclasses__():
        kinds.update(_kinds(kind))
    return kinds


_BY_CODE = _kinds(CorralError)

# The best guess from a status alone.
_BY_STATUS: Dict[int, Type[CorralError]] = {
    401: UnauthorizedError,
    403: DeniedError,
    404: NotFoundError,
    409: ConflictError,
    410: NotFoundError,
    413: TooLargeError,
    429: TooManyError,
    501: UnsupportedError,
    502: LostError,
    503: UnavailableError,
    504: LostError,
}


def from_answer(status: int, body: bytes, retry_after: int = 0) -> CorralError:
    """The error in an answer with a status of 300 or more: gateways send nobody elsewhere."""
    kind = _BY_STATUS.get(status, InvalidError if status < 500 else InternalError)
    try:
        answer: Dict[str, Any] = json.loads(body)
        error: Dict[str, Any] = answer["error"]
        message = error["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        text = " ".join(body[:200].decode("utf-8", "replace").split())
        return kind(f"the answer is {status}: {text}", status=status, hint="check that the address is that of a gateway of corral")
    code, written = str(error.get("code", "")), answer.get("written")
    kind = _BY_CODE.get(code, kind) if code else kind
    return kind(str(message), hint=str(error.get("hint", "")), details=error.get("details"), status=status, code=code,
                written=written if isinstance(written, int) else 0, retry_after=retry_after)
