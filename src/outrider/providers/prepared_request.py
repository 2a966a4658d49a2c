"""A request that is ready to send, and what was left out of it since it was refused."""

from __future__ import annotations

from collections.abc import Callable

from outrider.providers.body import Body
from outrider.providers.transcript import Rendering


class PreparedRequest:
    """The body of a request, with the rendering that it was made from."""

    __slots__ = ("body", "rendering", "undo")

    def __init__(self, body: Body, rendering: Rendering) -> None:
        self.body = body
        self.rendering = rendering
        self.undo: list[Callable[[Rendering], None]] = []
        """What restores each thing that was left out."""

    def restore(self) -> None:
        """Restore what was left out, because leaving it out did not help."""
        for restore in self.undo:
            restore(self.rendering)
