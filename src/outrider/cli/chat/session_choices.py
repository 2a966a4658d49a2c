"""The sessions and the models to choose from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from outrider.cli.chat.current_session import home_relative
from outrider.cli.chat.picker import Choice

if TYPE_CHECKING:
    from outrider.log.log import Log

MOST = 200


def session_choices(log: Log, folder: Path) -> list[Choice]:
    """Return the recent sessions, those of this folder first."""
    from outrider.cli.session_format import format_time

    here: list[Choice] = []
    elsewhere: list[Choice] = []
    for each in log.sessions(limit=MOST):
        worked_in = each.folder
        is_here = worked_in == str(folder)
        where = "" if is_here or not worked_in else f" in {home_relative(Path(worked_in))}"
        label = f"{each.id[:8]}  {format_time(each.updated)}  {each.title}"
        (here if is_here else elsewhere).append(Choice(each.id, label, where.strip()))
    return [*here, *elsewhere]


def model_choices() -> list[Choice]:
    """Return the models of the providers that have a key, and the demo model."""
    from outrider.cli.models import HOSTED, OTHERS, api_of
    from outrider.providers import tiers

    found = [
        Choice(f"{prefix}/{model}", f"{prefix}/{model}", tier)
        for prefix in (*HOSTED, *OTHERS)
        if api_of(prefix).key
        for tier, model in tiers.models_of(prefix).items()
    ]
    return [*found, Choice("demo", "demo", "built in: a few rules, not an LLM")]
