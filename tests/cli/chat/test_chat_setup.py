"""`/login`, `/config`, `/doctor`, `/hooks`, `/skills` and `/agents` in a real terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.cli.chat.terminal import Terminal, at_the_prompt_with, until

KEY = "sk-quiet-horse-battery"


@pytest.fixture
async def vendor() -> AsyncIterator[str]:
    """A vendor that knows one key."""

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": []}, status=200 if request.headers.get("x-api-key") == KEY else 401)

    app = web.Application()
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def names_of_files_with(text: bytes, folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()}


async def enter_key(terminal: Terminal, key: str, *, paste: bool = False) -> None:
    terminal.say("/login")
    await terminal.wait_for("API key for anthropic (not shown; Enter leaves it):")
    before = terminal.prompts
    (terminal.paste if paste else terminal.type)(key)
    terminal.press("enter")
    await until(lambda: terminal.prompts > before, what="the next prompt")
    await terminal.wait_for_prompt()


async def test_a_key_is_entered_without_leaving_the_chat_and_nowhere_shown(project: Path, vendor: str) -> None:
    async with Terminal("--model", "demo", cwd=project, ANTHROPIC_BASE_URL=vendor) as terminal:
        await terminal.wait_for_prompt()
        await enter_key(terminal, "sk-wrong-horse")
        assert "Anthropic does not accept this key; it was not kept" in terminal.flowing
        await enter_key(terminal, "")
        assert "Nothing was changed." in terminal.flowing
        await at_the_prompt_with(terminal, f"/login {KEY}")
        assert "/login takes a provider and asks for the key" in terminal.flowing
        assert terminal.flowing.count(KEY) == 1  # the user typed it, and it is not repeated
        written = len(terminal.raw)
        await enter_key(terminal, KEY, paste=True)
        assert "The key is valid. It is in" in terminal.flowing
        assert KEY.encode() not in terminal.raw[written:]
        assert "•" not in terminal.screen
        home = Path(terminal.environment["OUTRIDER_HOME"])
        assert names_of_files_with(KEY.encode(), home) == {"keys.json"}


async def test_the_set_up_is_shown_and_changed(project: Path) -> None:
    skill = project / ".agents/skills/tidy/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: tidy\ndescription: Tidies up.\n---\nTidy.\n")
    agent = project / ".outrider/agents/critic.md"
    agent.parent.mkdir(parents=True)
    agent.with_name("b\u202ec.md").write_text("There are no fields.\n")
    agent.write_text("---\ndescription: Finds\u202efaults.\n---\nFind faults.\n")
    (project / ".outrider/hooks.json").write_text(
        '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}'
    )
    async with Terminal("--model", "demo", cwd=project, columns=120, lines=40) as terminal:
        await at_the_prompt_with(terminal, "/skills", "/agents", "/hooks")
        assert "/tidy (.agents/skills): Tidies up." in terminal.flowing
        assert "To add one: .agents/skills/NAME/SKILL.md" in terminal.flowing
        assert "Explore (built in): " in terminal.flowing
        assert "critic (.outrider/agents/critic.md): Finds" in terminal.flowing
        assert "\u202e".encode() not in terminal.raw
        assert "1 hook waits for your consent" in terminal.flowing
        await at_the_prompt_with(
            terminal, "/config set limits.max_turns 7", "/config set limits.max_turns x", "/config"
        )
        file = Path(terminal.environment["XDG_CONFIG_HOME"]) / "outrider/config.toml"
        assert file.read_text() == "[limits]\nmax_turns = 7\n"
        assert "limits.max_turns must be a whole number over 0" in terminal.flowing
        assert "limits.max_turns 7 ~/.config/outrider/config.toml" in terminal.flowing
        assert "It applies to chats that are started from now on." in terminal.flowing
        await at_the_prompt_with(terminal, "/config unset limits.max_turns", "/config set", "/doctor")
        assert file.read_text() == "[limits]\n"
        assert "Write /config, /config all" in terminal.flowing
        assert "✓ Python" in terminal.transcript
        assert "Nothing is broken." in terminal.flowing or "broken: see the lines with" in terminal.flowing
