"""Every error that Outrider raises on purpose.

OutriderError
├── ConversationError      an invalid conversation, message or block (a ValueError)
├── SchemaError            a type or a JSON Schema that cannot be used (a TypeError)
├── ValidationError        data that does not satisfy its schema; names every violation (a ValueError)
├── ToolDefinitionError    a function that cannot be a tool, or a name that cannot be used (a TypeError)
├── AttachmentError        a file that is missing, too large, or not what its label says
├── ConfigError            settings that cannot be used; names the file and the key (a ValueError)
├── BudgetError            the budget of a batch or of a day is used up; the work can be continued
├── RunError               an agent's run ended without an answer; has the result of the run
├── UnknownModelError      a model name that no provider has (a ValueError)
├── ProviderError              the request to the model failed; the conversation is unchanged
│   ├── AuthenticationError    a missing or rejected key
│   │   └── MissingKeyError    no key is set; names the variables
│   ├── RequestRefusedError    the API rejects this request: a model, a limit, a schema
│   │   └── ContextExceededError   the conversation is longer than the model's context window
│   ├── RateLimitedError       too many requests, or no quota left
│   ├── UnavailableError       the API is unreachable, overloaded or too slow
│   └── IncompleteStreamError  the stream ended before the reply was complete
├── McpError                   an MCP server failed, refused a request, or sent something invalid
│   ├── McpClosedError         the connection to the server ended
│   │   └── McpLoginError      the server needs a login, or refuses the one there is
│   ├── McpRefusedError        the server was not started: it is not what the user agreed to
│   └── McpTimeoutError        the server did not answer in time
├── HandsError                 the tools of a session elsewhere cannot be reached, or said something invalid
│   └── HandsLostError         the connection ended while a call ran; whether it did its work is unknown
├── HookBlockedError       a hook refused the prompt
├── AnsweredError          a question that was answered before, or is not asked any more
├── SessionBusyError       a call on a session that is still busy with another one
├── SessionCancelledError  a call on a session was cancelled with cancel()
├── RewindConflictError    a rewind would overwrite files that someone else changed; names them
└── LogError                   the durable log cannot be used; acknowledged entries are still on disk
    ├── UnknownSessionError    the log has no session with this id (a ValueError)
    ├── SessionHeldError       another process, or another part of this one, has the session open
    ├── SessionLostError       the session was taken over by another process, or deleted
    ├── NewerLogError          the log was written by a newer version
    ├── LogDeniedError         the database denies a right that the log or a batch needs
    └── DamagedLogError        the file is damaged; `outrider sessions recover` saves the intact entries
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class OutriderError(Exception):
    """The base class of all errors above."""


class ConversationError(OutriderError, ValueError):
    """An invalid conversation, message or block."""


class SchemaError(OutriderError, TypeError):
    """A type or a JSON Schema that cannot be used."""


class ValidationError(OutriderError, ValueError):
    """Data that does not satisfy its schema."""

    def __init__(self, violations: Iterable[str]) -> None:
        self.violations = tuple(violations)
        """One sentence for each violation, with its location."""
        super().__init__("; ".join(self.violations))


class ToolDefinitionError(OutriderError, TypeError):
    """A function that cannot be a tool, or a name that cannot be used."""


class AttachmentError(OutriderError):
    """A file that is missing, too large, or not what its label says."""


class ConfigError(OutriderError, ValueError):
    """Settings that cannot be used."""


class BudgetError(OutriderError):
    """The budget of a batch or of a day is used up. Results and conversations are kept, and can be continued."""


class RunError(OutriderError):
    """An agent's run ended without an answer: it failed, reached a limit, or returned no report."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result
        """The `RunResult` of the run, with the conversation up to its end."""


class UnknownModelError(OutriderError, ValueError):
    """A model name that no provider has."""


class ProviderError(OutriderError):
    """The request to the model failed. The conversation is unchanged."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str = "",
        retryable: bool = False,
        retry_after: float | None = None,
        retry_seconds: float | None = None,
    ) -> None:
        super().__init__(f"{message} (request {request_id})" if request_id else message)
        self.status = status
        """The HTTP status, if there was a response."""
        self.request_id = request_id
        """The provider's id of the request, for its support."""
        self.retryable = retryable
        """Whether a retry of the same request may succeed."""
        self.retry_after = retry_after
        """Seconds to wait before a retry, if the provider gave them."""
        self.retry_seconds = retry_seconds
        """Seconds after which retries are pointless; None leaves it to the agent's `retry`."""
        self.usage: Any = None
        """The `Usage` that the API reported for the failed request, if it did."""


class AuthenticationError(ProviderError):
    """A missing or rejected key."""


class MissingKeyError(AuthenticationError):
    """A model without its key. `run` raises it, as every other call does: the user has to do something first."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(f"{sentence}; the model `demo` needs no key, but it is not an LLM")


class RequestRefusedError(ProviderError):
    """The API rejects this request: a model, a limit, a schema."""


class ContextExceededError(RequestRefusedError):
    """The conversation is longer than the model's context window."""

    window: int | None = None
    """The context window in tokens, if the API named it."""


class RateLimitedError(ProviderError):
    """Too many requests, or no quota left."""


class UnavailableError(ProviderError):
    """The API is unreachable, overloaded or too slow."""


class IncompleteStreamError(ProviderError):
    """The stream ended before the reply was complete."""


class McpError(OutriderError):
    """An MCP server failed, refused a request, or sent something invalid."""

    def __init__(self, message: str, *, code: int | None = None, data: Any = None, is_passing: bool = False) -> None:
        super().__init__(message)
        self.is_passing = is_passing
        """Whether the connection failed and not the request, so that the same request may succeed later."""
        self.code = code
        """The JSON-RPC code, if the server sent an error response."""
        self.data = data
        """The data of the error response."""


class McpClosedError(McpError):
    """The connection to an MCP server ended."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent
        """Whether the server may have received the request."""


class McpLoginError(McpClosedError):
    """An MCP server needs a login, or refuses the one there is."""


class McpRefusedError(McpError):
    """An MCP server was not started: what it would run is not what the user agreed to."""


class McpTimeoutError(McpError):
    """An MCP server did not answer in time."""


class HandsError(OutriderError):
    """The tools of a session elsewhere cannot be started or reached, or said something invalid."""


class HandsLostError(HandsError):
    """The connection ended while a call ran. Whether it did its work is unknown."""


class HookBlockedError(OutriderError):
    """A hook refused the prompt; the conversation is unchanged."""


class AnsweredError(OutriderError):
    """The question was answered before, or is not asked any more."""


class SessionBusyError(OutriderError):
    """A call on a session that is still busy with another one."""


class SessionCancelledError(OutriderError):
    """A call on a session was cancelled with cancel()."""


class RewindConflictError(OutriderError):
    """A rewind would overwrite files that someone else changed since. Nothing was changed."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = tuple(paths)
        """The paths of the files, from the working folder."""
        named = ", ".join(self.paths[:5]) + (" …" if len(self.paths) > 5 else "")
        super().__init__(f"files were changed by someone else since: {named}; rewind with force to overwrite them")


class LogError(OutriderError):
    """The durable log cannot be used. Acknowledged entries are still on disk."""


class UnknownSessionError(LogError, ValueError):
    """The log has no session with this id."""


class SessionHeldError(LogError):
    """Another process, or another part of this one, has the session open."""


class SessionLostError(LogError):
    """The session was taken over by another process, or deleted."""


class NewerLogError(LogError):
    """The log was written by a newer version."""


class LogDeniedError(LogError):
    """The database denies a right that the log or a batch needs."""


class DamagedLogError(LogError):
    """The file is damaged."""


def install_extra(extra: str) -> str:
    """Return how to install an extra, for errors. Outrider is on no package index, so that pip needs a path."""
    return f"pip install 'PATH[{extra}]', with the path of Outrider's checkout or wheel"
