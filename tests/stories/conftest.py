"""Every story leaves sessions that replay without a difference."""

from tests.replays import replayed_sessions

__all__ = ["replayed_sessions"]
