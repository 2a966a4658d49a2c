"""`outrider login` and `logout`: a key is checked, kept for the owner alone, used, and never shown."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from outrider.environment import data_folder
from outrider.providers.credentials.keys import remove_key, store_key, stored_key
from outrider.providers.credentials.secrets import configured, masked
from outrider.providers.resolution import resolve
from tests.cli.program import outrider

KEY = "correct-horse-battery-staple"


@pytest.fixture
async def vendor() -> AsyncIterator[str]:
    """A vendor that knows one key, and lists its models only to those who have it."""

    async def models(request: web.Request) -> web.Response:
        given = request.headers.get("x-api-key") or request.headers.get("x-goog-api-key")
        given = given or request.headers.get("authorization", "").removeprefix("Bearer ")
        if given == "unlucky":
            return web.Response(status=503, text=f"overloaded, {given}")
        if given != KEY:
            return web.json_response({"error": f"bad key {given}"}, status=401)
        return web.json_response({"data": []})

    app = web.Application()
    for path in ("/v1/models", "/v1beta/models", "/models"):
        app.router.add_get(path, models)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


BASES = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL"}


async def login(vendor: str, key: str, provider: str = "anthropic") -> Any:
    bases = dict.fromkeys(BASES.values(), vendor)
    return await asyncio.to_thread(outrider, "login", provider, input=f"{key}\n".encode(), **bases)


@pytest.mark.parametrize("provider", list(BASES))
async def test_a_key_is_checked_kept_and_used_until_it_is_removed(vendor: str, provider: str) -> None:
    ended = await login(vendor, KEY, provider)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "The key is valid." in ended.stdout
    assert KEY not in ended.stdout
    file = data_folder() / "keys.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert getattr(resolve(f"{provider}/balanced"), "key", "") == KEY
    assert outrider("logout").stdout.startswith("Removed the key for ")
    assert KEY not in file.read_text()
    assert outrider("logout", provider).stdout == "No key was stored.\n"


@pytest.mark.parametrize(
    ("key", "code", "why"),
    [
        ("wrong-key-12345", 1, "does not accept this key"),
        ("unlucky", 2, "503"),
        ("", 2, "not a key"),
        ("two words", 2, "not a key"),
    ],
)
async def test_a_key_that_is_not_accepted_is_not_kept_and_not_shown(vendor: str, key: str, code: int, why: str) -> None:
    ended = await login(vendor, key)
    assert (ended.returncode, ended.stdout, why in ended.stderr) == (code, "", True), ended.stderr
    assert not key or key not in ended.stderr
    assert not (data_folder() / "keys.json").exists()


def test_an_unknown_provider_is_refused() -> None:
    ended = outrider("login", "nobody", input=b"k\n")
    assert (ended.returncode, "there is no provider 'nobody'" in ended.stderr) == (2, True)
    assert "takes no key" in outrider("login", "demo", input=b"k\n").stderr


def test_the_environment_wins_over_a_stored_key(monkeypatch: pytest.MonkeyPatch) -> None:
    store_key("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
    assert getattr(resolve("anthropic/balanced"), "key", "") == "from-the-environment"
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert getattr(resolve("anthropic/balanced"), "key", "") == KEY


def test_a_stored_key_is_masked_like_any_other() -> None:
    store_key("ANTHROPIC_API_KEY", KEY)
    assert masked(f"bad key {KEY}", *configured()) == "bad key …"


def test_a_keyring_is_used_if_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keyring.py").write_text(
        "kept = {}\n"
        "class Ring: priority = 5\n"
        "get_keyring = Ring\n"
        "def set_password(service, name, key): kept[service, name] = key\n"
        "def get_password(service, name): return kept.get((service, name))\n"
        "def delete_password(service, name): del kept[service, name]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert store_key("ANTHROPIC_API_KEY", KEY) == "the system's keyring"
    assert KEY not in (data_folder() / "keys.json").read_text()
    assert stored_key(("ANTHROPIC_API_KEY",)) == KEY
    assert remove_key("ANTHROPIC_API_KEY")
    assert stored_key(("ANTHROPIC_API_KEY",)) == ""
    import keyring  # type: ignore[import-not-found,unused-ignore]

    assert keyring.kept == {}


def test_a_damaged_file_is_named_and_breaks_no_run() -> None:
    data_folder().mkdir(parents=True, exist_ok=True)
    (data_folder() / "keys.json").write_text("{")
    assert stored_key(("ANTHROPIC_API_KEY",)) == ""
    ended = outrider("logout")
    assert (ended.returncode, "remove the file and log in again" in ended.stderr) == (2, True)
    assert os.path.exists(data_folder() / "keys.json")
