"""The id of a session, as people write it."""

from __future__ import annotations

import re

RANDOM_ID = 32
"""The length of an id that no program has chosen."""


def shown_id(session: str) -> str:
    """Return an id as it is shown, which finds the session: the beginning of a random one, or all of one of your own.

    >>> shown_id("0123456789abcdef0123456789abcdef"), shown_id("order-17-refund")
    ('01234567', 'order-17-refund')
    """
    return session[:8] if re.fullmatch(f"[0-9a-f]{{{RANDOM_ID}}}", session) else session
