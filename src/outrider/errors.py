"""Every error that Outrider raises on purpose.

OutriderError
├── ConversationError      a conversation, message or block that cannot be understood (a ValueError)
├── SchemaError            a type or a JSON Schema that cannot be used (a TypeError)
├── ValidationError        data that does not satisfy its schema; names every violation (a ValueError)
├── ToolDefinitionError    a function that cannot be a tool, or a name that cannot be used (a TypeError)
├── AttachmentError        a file that is missing, too large, or not what its label says
├── ConfigError            settings that cannot be used; names the file and the key (a ValueError)
├── RunError            an agent was asked, and ended without an answer; has the result of its run
├── UnknownModelError      a model name that no provider answers to (a ValueError)
├── ProviderError              the model's side failed; the conversation is as it was
│   ├── AuthenticationError    no key, or one that is not accepted
│   ├── RequestRefusedError    the API does not take this request: a model, a limit, a schema
│   ├── RateLimitedError       too many requests, or no quota left
│   ├── UnavailableError       the API cannot be reached, is overloaded or too slow
│   └── IncompleteStreamError        the reply ended before it was complete
├── SessionBusyError       a session was asked for a second thing before it finished the first
├── SessionCancelledError  what was asked of a session was cancelled with cancel()
└── LogError                   the durable log cannot be used; what was acknowledged is still on disk
    ├── UnknownSessionError    the log has no session of this id (a ValueError)
    ├── SessionHeldError       another process, or another part of this one, has the session open
    ├── SessionLostError       the session was taken over by another process, or deleted
    ├── NewerLogError          the log was written by a newer version
    └── DamagedLogError        the file is not whole; `outrider sessions recover` saves what is
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class OutriderError(Exception):
    """The root of the tree above: catch it to catch them all."""


class ConversationError(OutriderError, ValueError):
    """A conversation, message or block that cannot be understood."""


class SchemaError(OutriderError, TypeError):
    """A type or a JSON Schema that cannot be used."""


class ValidationError(OutriderError, ValueError):
    """Data that does not satisfy its schema."""

    def __init__(self, violations: Iterable[str]) -> None:
        self.violations = tuple(violations)
        """Each violation as a sentence that names the place."""
        super().__init__("; ".join(self.violations))


class ToolDefinitionError(OutriderError, TypeError):
    """A function that cannot be a tool, or a name that cannot be used."""


class AttachmentError(OutriderError):
    """A file that is missing, too large, or not what its label says."""


class ConfigError(OutriderError, ValueError):
    """Settings that cannot be used."""


class RunError(OutriderError):
    """A run ended without an answer: it failed, a limit stopped it, or the model gave no report."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result
        """How the run ended: a `RunResult`, with the conversation as far as it came."""


class UnknownModelError(OutriderError, ValueError):
    """A model name that no provider answers to."""


class ProviderError(OutriderError):
    """The model's side failed. The conversation is as it was before the request."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str = "",
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{message} (request {request_id})" if request_id else message)
        self.status = status
        """The HTTP status, if there was an answer."""
        self.request_id = request_id
        """The provider's own id of the request, for its support."""
        self.retryable = retryable
        """Whether the same request may succeed a little later."""
        self.retry_after = retry_after
        """Seconds to wait before that, if the provider said so."""


class AuthenticationError(ProviderError):
    """No key, or one that is not accepted."""


class RequestRefusedError(ProviderError):
    """The API does not take this request: a model, a limit, a schema."""


class RateLimitedError(ProviderError):
    """Too many requests, or no quota left."""


class UnavailableError(ProviderError):
    """The API cannot be reached, is overloaded or too slow."""


class IncompleteStreamError(ProviderError):
    """The reply ended before it was complete."""


class SessionBusyError(OutriderError):
    """A session was asked for a second thing before it finished the first."""


class SessionCancelledError(OutriderError):
    """What was asked of a session was cancelled with cancel()."""


class LogError(OutriderError):
    """The durable log cannot be used; what was acknowledged is still on disk."""


class UnknownSessionError(LogError, ValueError):
    """The log has no session of this id."""


class SessionHeldError(LogError):
    """Another process, or another part of this one, has the session open."""


class SessionLostError(LogError):
    """The session was taken over by another process, or deleted."""


class NewerLogError(LogError):
    """The log was written by a newer version."""


class DamagedLogError(LogError):
    """The file is not whole."""
