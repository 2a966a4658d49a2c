"""The reference of the events that observers of a session receive."""

from __future__ import annotations

from typing import get_args

from outrider.events import Event

HEAD = """# Events

From the docstrings. [The public API](../api.md#events) has them in one table, and
[`outrider -p`](../print.md#formats) their form as JSON.

"""


def events_page() -> str:
    """Return a page with each type of `outrider.events.Event`, in the order of the union."""
    return HEAD + "\n".join(f"::: outrider.events.{kind.__name__}\n" for kind in get_args(Event))
