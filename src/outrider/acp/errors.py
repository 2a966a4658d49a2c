"""Converts Outrider's errors to JSON-RPC errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from outrider.acp.connection import RpcError
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
def as_rpc_error() -> Iterator[None]:
    """Re-raise an OutriderError from the block as RpcError, with the matching code."""
    try:
        yield
    except RpcError:
        raise
    except UnknownSessionError as error:
        raise RpcError.not_found(str(error)) from None
    except AuthenticationError as error:
        raise RpcError.auth_required(str(error)) from None
    except (ConfigError, UnknownModelError, AttachmentError, ConversationError, ToolDefinitionError) as error:
        raise RpcError.invalid_params(str(error)) from None
    except (SessionBusyError, SessionHeldError) as error:
        raise RpcError.invalid_request(str(error)) from None
    except OutriderError as error:
        raise RpcError.internal(str(error)) from None
