"""The checks of a goal, as the page gets them."""

from __future__ import annotations

from outrider.conversation.messages import Message
from outrider.log.entries import GoalChecked, MessageEntry, Record, SessionSettings
from outrider.runtime.goal import failure_text
from outrider.web.entry_view import EntryView
from outrider.web.feed import Draft


def test_a_goal_its_checks_and_what_the_model_read() -> None:
    told = Message.user(failure_text("make", 1, "\x1b[31mno rule", 1))
    entries = [
        SessionSettings(goal="make"),
        GoalChecked("make", False, "\x1b[2Jno rule", "ab"),
        MessageEntry(told),
        GoalChecked("make", True, "ok"),
    ]
    shown = EntryView().entries(Record(seq, 1.0, entry) for seq, entry in enumerate(entries, 1))
    assert [each.get("goal") for each in shown] == ["make", None, None, None]
    assert [each.get("check") for each in shown] == [None, None, True, None]
    assert [(each["passed"], each["last_line"]) for each in shown if "passed" in each] == [
        (False, shown[1]["last_line"]),
        (True, ""),
    ]
    assert "\x1b" not in str(shown)


def test_a_running_check_is_said() -> None:
    draft = Draft()
    assert not draft.apply({"type": "goal_check_started", "goal": "make", "check": 1})
    assert draft.fields()["notice"] == "Checking the goal…"
    assert draft.apply({"type": "goal_checked", "goal": "make", "passed": True, "check": 1})
