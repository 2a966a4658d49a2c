"""Where servers run and how far they may go: what they may send, how often they are started again."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from outrider.processes.programs import Programs


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


class Restarts(msgspec.Struct, frozen=True):
    """How often a server is started again."""

    most: int = 5
    """Restarts in a row."""
    first_pause: float = 1.0
    """Seconds before the first one; each further pause is twice as long."""
    longest_pause: float = 30.0
    healthy_after: float = 60.0
    """Seconds of running after which the count begins again."""
    list_pause: float = 1.0
    """The least seconds between two readings of a changed list."""

    def pause(self, failures: int) -> float:
        """Return the seconds to wait after so many failures in a row."""
        return float(min(self.first_pause * 2 ** (failures - 1), self.longest_pause))


class ServerHost(msgspec.Struct, frozen=True):
    """What all servers of a program have in common."""

    environment: Mapping[str, str] | None = None
    """What programs inherit, without keys; None for a few variables of this process."""
    programs: Programs | None = None
    """Finds programs by their names, outside of working folders."""
    restarts: Restarts = Restarts()
    bounds: Bounds = Bounds()


DEFAULT = ServerHost()
