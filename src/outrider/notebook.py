"""`LiveView`: what a session does, shown in a notebook while it works."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from outrider.errors import ConfigError

if TYPE_CHECKING:
    from outrider.runtime.observers import Observer
    from outrider.runtime.session import Session

__all__ = ["LiveView"]


class LiveView:
    """Shows runs in a notebook while they go on: `await agent.run("…", observer=LiveView())`.

    Text streams, calls are folded with their results, and the end has tokens and cost. Raises ConfigError outside of
    IPython.
    """

    def __init__(self) -> None:
        try:
            import_module("IPython.display")  # found out now, not in the first run
        except ImportError:
            raise ConfigError("LiveView shows runs in a notebook, and IPython is not installed here") from None

    def observe(self, session: Session) -> Observer:
        """Return the observer of a session. `Session` calls this for `observer=`."""
        from outrider.runtime.run_view import RunView  # only notebooks need it

        return RunView()
