"""`outrider logout`; see `login.py`."""

from __future__ import annotations

from outrider.cli.login import logout as logout
