"""Errors of ours as errors of the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from outrider.acp.wire import WireError
from outrider.errors import (
    AttachmentError,
    AuthenticationError,
    ConfigError,
    ConversationError,
    OutriderError,
    SessionBusyError,
    SessionHeldError,
    ToolDefinitionError,
    UnknownModelError,
    UnknownSessionError,
)


@contextmanager
def as_wire_error() -> Iterator[None]:
    """What goes wrong inside is said to the editor, with the code that fits."""
    try:
        yield
    except WireError:
        raise
    except UnknownSessionError as error:
        raise WireError.not_found(str(error)) from None
    except AuthenticationError as error:
        raise WireError.auth_required(str(error)) from None
    except (ConfigError, UnknownModelError, AttachmentError, ConversationError, ToolDefinitionError) as error:
        raise WireError.invalid_params(str(error)) from None
    except (SessionBusyError, SessionHeldError) as error:
        raise WireError.invalid_request(str(error)) from None
    except OutriderError as error:
        raise WireError.internal(str(error)) from None
