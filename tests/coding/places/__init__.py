"""Where hands work and how they are started there."""

from __future__ import annotations

import pytest

from tests.other_root import trouble

needs_other_root = pytest.mark.skipif(bool(trouble()), reason=f"no other root can be made here: {trouble()}")
