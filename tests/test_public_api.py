"""What `import outrider` gives, and what it does not cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

import outrider


def test_every_public_name_is_there_and_explains_itself() -> None:
    for name in outrider.__all__:
        value = getattr(outrider, name)
        assert name == "__version__" or value.__doc__, name
    assert dir(outrider) == sorted(outrider.__all__)


def test_every_public_function_and_main_class_shows_an_example() -> None:
    for name in ("think", "run", "dumps", "loads", "tool", "Agent", "Session", "Message", "Attachment", "ToolResult"):
        assert ">>>" in (getattr(outrider, name).__doc__ or ""), name


def test_a_name_that_is_not_public_is_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'thnik'"):
        outrider.thnik  # noqa: B018


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("from outrider import *", ["pydantic", "click", "rich", "aiohttp", "httpx", "jsonschema_rs", "platformdirs"]),
        ("import outrider.cli; outrider.cli.main(['--version'])", ["asyncio", "msgspec"]),
        ("import outrider.cli; outrider.cli.main(['--help'])", ["asyncio", "msgspec"]),
    ],
)
def test_nothing_heavy_is_imported(code: str, unwanted: list[str]) -> None:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not set(unwanted) & set(loaded)
