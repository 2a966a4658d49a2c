"""The harness can fail: each broken promise of the log is noticed, and an unbroken one is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.nursery import Nursery
from tests.crash.trial import Trial


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("sabotage", "kill_at", "fault"),
    [
        ("runs_tools_without_their_intents", "put has acted:1", "put ran in life 1, and nothing on disk says"),
        ("runs_tools_without_their_intents", "put has acted:1", "put (a2) wrote 2 times"),
        ("shows_what_is_not_on_disk", "after MessageAdded is shown:4", "showed a message that is lost"),
        ("shows_what_is_not_on_disk", "after ToolFinished is shown:1", "showed a result that is lost"),
        ("shows_what_is_not_on_disk", "the model is asked:2", "asked something that is not on disk"),
        ("begins_anew_what_may_not_be_repeated", "put has acted:1", "though it may have run before"),
        ("begins_anew_what_may_not_be_repeated", "put begins:1", "a2 may have run or not, and its answer is"),
        ("forgets_the_key", "before ToolFinished is shown:1", "with another key"),
        ("loses_files", "the model is asked:4", "store.png is not in the attachment store"),
    ],
)
def test_the_harness_notices_a_log_that(
    nursery: Nursery, quick_folder: Path, sabotage: str, kill_at: str, fault: str
) -> None:
    said = ""
    for attempt in range(50):  # calls run side by side: what one owes to the disk, another may pay in time
        trial = Trial(nursery, quick_folder / f"trial-{attempt}")
        assert trial.live(kill_at=kill_at, sabotage=sabotage).killed
        last = trial.live(sabotage="" if sabotage == "shows_what_is_not_on_disk" else sabotage)
        said = "\n".join(trial.verdict(last))
        if fault in said:
            break
    assert fault in said


def test_the_harness_finds_no_fault_with_a_life_that_was_not_killed(nursery: Nursery, quick_folder: Path) -> None:
    trial = Trial(nursery, quick_folder / "trial")
    assert trial.verdict(trial.live()) == []
