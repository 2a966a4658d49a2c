"""scripts/check-api: a break of the public API needs its name in the changelog."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent
OLD = """\
class Session(object):
    def __init__(self, *, agent, store=...): ...
    def run(prompt: str, limits: Limits = ...) -> RunResult: ...
    id: str
def think(prompt: str) -> str: ...
"""


@pytest.fixture(scope="module")
def check() -> ModuleType:
    pytest.importorskip("griffe", reason="griffe is not installed")
    path = ROOT / "scripts" / "check-api"
    spec = spec_from_loader("check_api", SourceFileLoader("check_api", str(path)))
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (("id: str\n", "uid: str\n"), "Session.id"),
        (("store=...", "store"), "Session"),
        (("limits: Limits = ...", "*, limits: Limits = ..."), "Session.run"),
        (("prompt: str, ", "question: str, "), "Session.run"),
        (("def think(prompt: str)", "def think(prompt: str, model: str)"), "think"),
    ],
)
def test_a_break_must_be_named(check: ModuleType, change: tuple[str, str], name: str) -> None:
    new = OLD.replace(*change)
    silent = (
        "# Changelog\n\n## Unreleased\n\n- `Session.close` waits.\n\n## 0.1.0\n\n- `Session.id`, `Session`, `think`\n"
    )
    (found,) = {each.partition(":")[0] for each in check.unnamed_breaks(OLD, new, silent)}
    assert found == name
    assert check.unnamed_breaks(OLD, new, silent.replace("`Session.close`", f"`{name}(…)`")) == []


def test_what_is_added_breaks_nothing(check: ModuleType) -> None:
    new = OLD + "def ask(prompt: str) -> str: ...\n"
    new = new.replace("store=...", "store=..., cwd=...").replace(
        "limits: Limits = ...", "limits: Limits = ..., go: int = ..."
    )
    assert check.unnamed_breaks(OLD, new, "") == []


@pytest.mark.long
def test_the_page_of_the_api_has_every_public_name(check: ModuleType) -> None:
    import outrider

    page = check.public_api()
    for name in {*outrider.__all__} - {"providers"}:
        assert f"class {name}" in page or f"def {name}(" in page or f"\n{name}: " in f"\n{page}", name
    assert "    class TurnStarted(" in page


def test_a_name_at_the_top_needs_a_reason(check: ModuleType) -> None:
    reasons = '[agents]\nAgent = "every program begins with one"\nSession = " "\n'
    assert check.unexplained_names({"Agent"}, reasons.replace('Session = " "', "")) == []
    assert check.unexplained_names({"Agent", "Session", "Helper"}, reasons) == [
        "`Helper` has no reason in top-names.toml",
        "`Session` has no reason in top-names.toml",
    ]
    assert check.unexplained_names(set(), reasons) == [
        "top-names.toml names `Agent`, which is not there",
        "top-names.toml names `Session`, which is not there",
    ]
    many = {f"name{number}" for number in range(check.MOST_AT_THE_TOP + 1)}
    given = "[names]\n" + "".join(f'{name} = "why"\n' for name in many)
    assert [each.split()[0] for each in check.unexplained_names(many, given)] == [str(len(many))]
