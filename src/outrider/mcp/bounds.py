"""The limits of what a server may send."""

from __future__ import annotations

import msgspec


class Bounds(msgspec.Struct, frozen=True):
    """The limits of what a server may send. Beyond them a call fails or the server is closed; memory does not grow."""

    message_bytes: int = 32 * 1024 * 1024
    """The longest message: a file of 20 MiB in base64, and some more."""
    items: int = 2_000
    """Tools, resources or prompts of one server."""
    pages: int = 200
    """Pages of one list."""
    list_bytes: int = 8 * 1024 * 1024
    """All items of one list together."""
    stray_messages: int = 10_000
    """Lines that answer nothing, in a burst."""
    stray_rate: float = 100.0
    """Such lines a second that a server may send for ever."""
    server_requests: int = 16
    """Requests of the server that are being answered at the same time."""
    answers: int = 1_000
    """Answers to the server that are on their way, each a POST. It takes none, so more are dropped."""
    stderr_bytes: int = 8 * 1024
    """The end of what the program writes to standard error, kept for error texts."""
    rounds: int = 10
    """How often a server may ask for more input before it answers a request."""
    poll_seconds: float = 60.0
    """The longest pause between two polls of a task, whatever the server suggests."""
    task_seconds: float = 24 * 3600.0
    """How long a task may run, even if it makes progress."""


DEFAULT = Bounds()
