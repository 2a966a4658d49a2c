"""The settings of an agent as the log keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider.errors import LogError
from outrider.log.entries import SessionSettings
from outrider.runtime.agent_settings import agent_of, cwd_of, kept_limits, limits_of, settings_of
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.limits import Limits
from outrider.testing import ScriptedModel


def look() -> str:
    """Look around."""
    return "Nothing."


def stored(**changes: Any) -> SessionSettings:
    """The settings of an agent with these fields, as they come back from the log."""
    settings = settings_of(AgentSpec("demo", tools=(look,), system="Be brief."), Path("/work"))
    return msgspec.structs.replace(settings, **changes)


def test_an_agent_comes_back_without_its_tools() -> None:
    settings = stored()
    assert (settings.tools, settings.cwd) == (("look",), "/work")
    again = agent_of(settings)
    assert (again.model, again.system, again.limits, again.tools) == ("demo", "Be brief.", Limits(), ())


def test_a_model_that_is_an_object_is_stored_by_its_name_and_no_tools_as_unknown(tmp_path: Path) -> None:
    model = ScriptedModel([])
    settings = settings_of(AgentSpec(model), tmp_path)
    assert (settings.model, settings.tools) == (model.name, None)


def test_without_a_model_the_error_says_what_to_pass() -> None:
    with pytest.raises(LogError, match=r"which model answered; pass agent=Agent\(…\)"):
        agent_of(stored(model=None))


@pytest.mark.parametrize("limits", [{"max_turns": "many"}, {"max_turns": -1}, {"max_seconds": []}, None, {}])
def test_limits_that_cannot_be_used_are_the_defaults(limits: Any) -> None:
    assert limits_of(stored(limits=limits)) == Limits()


def test_a_resumed_session_keeps_the_limits_that_were_changed() -> None:
    assert kept_limits(stored()) == {}
    changed = msgspec.to_builtins(Limits(max_turns=7, max_seconds=None, max_total_tokens=1000))
    assert kept_limits(stored(limits=changed)) == {"limits.max_turns": 7, "limits.max_total_tokens": 1000}


def test_limits_are_read_by_the_names_of_earlier_versions() -> None:
    former = {"turns": 7, "tokens": 1000, "cost": 0.5, "seconds": 60.0, "repeats": 3, "subagents": 4}
    expected = Limits(
        max_turns=7, max_total_tokens=1000, max_cost=0.5, max_seconds=60.0, max_repeats=3, max_subagents=4
    )
    assert limits_of(stored(limits=former)) == expected


@pytest.mark.parametrize("turns", [None, Limits().max_turns])
def test_neither_no_limit_of_turns_nor_the_default_of_earlier_versions_is_kept(turns: int | None) -> None:
    assert kept_limits(stored(limits=msgspec.to_builtins(Limits(max_turns=turns)))) == {}


def test_a_folder_that_is_gone_is_not_offered(tmp_path: Path) -> None:
    assert cwd_of(stored(cwd=str(tmp_path))) == str(tmp_path)
    assert cwd_of(stored(cwd=str(tmp_path / "gone"))) is None
    assert cwd_of(stored(cwd=None)) is None
