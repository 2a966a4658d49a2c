"""Sessions that are open in this process and are loaded or resumed again, and what they keep when they are reloaded."""

from __future__ import annotations

from pathlib import Path

from tests.acp.editor import introduced
from tests.acp.test_agent import current
from tests.cli.asking import everywhere
from tests.modelserver import Answer, Held, ModelServer

NOTICES = {"session": {"notices": {}}}


async def test_a_session_that_is_open_here_can_be_loaded_and_keeps_its_commands(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    replies = [
        Answer("", (("r", "Read", {"file_path": "notes.txt"}),)),
        Answer("", (("b", "Bash", {"command": "sleep 600", "run_in_background": True}),)),
        Answer("Done."),
        Answer("Again."),
    ]
    async with (
        ModelServer(replies) as server,
        introduced("--permissions", "all", **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Look")
        live = editor.seen(session)
        for _ in range(2):
            editor.forget(session)
            loaded = await editor.load(session, tmp_path)
            assert editor.seen(session).lasting() == live.lasting()
            assert set(loaded) == {"modes", "configOptions"}
        await editor.load(session, tmp_path, "session/resume")
        assert await editor.prompt(session, "Go on") == "end_turn"
        assert editor.seen(session).text().endswith("Again.")
        before = len(editor.seen(session).text())
        await editor.prompt(session, "/tasks")
        assert "sleep 600" in editor.seen(session).text()[before:], "it still runs"


async def test_while_a_turn_runs_a_session_can_be_resumed_but_not_replayed(tmp_path: Path) -> None:
    async with (
        ModelServer([Held(Answer("Words, and then the end."))]) as server,
        introduced(**everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        asked = editor.say(session, "Talk")
        await editor.until(lambda: "Words" in editor.seen(session).text(), "words")
        refused = await editor.refusal("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
        assert refused.code == -32600
        assert "wait for its end, or cancel it" in refused.message
        other = tmp_path / "other"
        other.mkdir()
        refused = await editor.refusal("session/resume", sessionId=session, cwd=str(other), mcpServers=[])
        assert refused.code == -32600
        await editor.load(session, tmp_path, "session/resume")
        server.release.set()
        assert await editor.answer(asked) == {"stopReason": "end_turn"}
        assert editor.seen(session).text() == "Words, and then the end."


async def test_a_session_that_is_open_here_can_move_to_another_folder(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "here.txt").write_text("one\n")
    async with introduced("--permissions", "all") as editor:
        session = await editor.new(tmp_path)
        await editor.prompt(session, "What is 2 + 2?")
        editor.forget(session)
        await editor.load(session, other)
        assert editor.seen(session).text() == "4"
        await editor.prompt(session, "read here.txt")
        assert editor.seen(session).call("Read")["status"] == "completed"
        missing = {"sessionId": session, "cwd": str(tmp_path / "missing"), "mcpServers": []}
        assert (await editor.refusal("session/load", **missing)).code == -32602
        assert await editor.prompt(session, "What is 2 + 2?") == "end_turn", "it is still open"


async def test_mode_model_and_effort_survive_a_reload_by_the_same_editor(tmp_path: Path) -> None:
    wanted = {"mode": "edits", "model": "openai/gpt-5", "effort": "low"}
    async with introduced(OPENAI_API_KEY="k") as editor:
        session = await editor.new(tmp_path)
        for option in ("model", "effort", "mode"):
            value = wanted[option]
            await editor.ask("session/set_config_option", sessionId=session, configId=option, value=value)
        await editor.ask("session/close", sessionId=session)
        assert current((await editor.load(session, tmp_path))["configOptions"]) == wanted
        forked = await editor.load(session, tmp_path, "session/fork")
        assert current(forked["configOptions"]) == wanted


async def test_a_mode_from_the_log_narrows_a_session_but_never_widens_it(tmp_path: Path) -> None:
    sessions = {}
    async with introduced() as editor:
        for chosen in ("plan", "ask", "edits", "all"):
            sessions[chosen] = await editor.new(tmp_path)
            await editor.prompt(sessions[chosen], f"/permissions {chosen}")
    for settings, kept in (("ask", ("plan", "ask")), ("edits", ("plan", "ask", "edits"))):
        async with introduced("--permissions", settings, capabilities=NOTICES) as editor:
            for chosen, session in sessions.items():
                loaded = await editor.load(session, tmp_path)
                assert loaded["modes"]["currentModeId"] == (chosen if chosen in kept else settings)
                await editor.prompt(session, "/cost")
                told = [each for each in editor.seen(session).notices if f"was in the mode {chosen}" in each]
                assert len(told) == (chosen not in kept)


async def test_an_editor_gives_a_system_prompt_or_adds_to_it(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    given = (None, "You are a poet.", {"append": "Answer in verse."})
    async with ModelServer([Answer("Hello.")] * 6) as server, introduced(**everywhere(server)) as editor:
        for prompt in given:
            session = await editor.new(tmp_path, _meta={"systemPrompt": prompt} if prompt else {})
            await editor.prompt(session, "Hello")
        usual, replaced, appended = (
            str(each.json["system"][0]["text"]) for each in server.requests if each.json.get("tools")
        )
        for wrong in (7, {"replace": "x"}, {"append": 1}, "x" * 100_001):
            params = {"cwd": str(tmp_path), "mcpServers": [], "_meta": {"systemPrompt": wrong}}
            refused = await editor.refusal("session/new", **params)
            assert (refused.code, "_meta.systemPrompt" in refused.message) == (-32602, True)
    assert usual.count("Use tabs.") == replaced.count("Use tabs.") == 1
    assert replaced.startswith("You are a poet.")
    assert usual[:200] not in replaced
    assert appended.replace("\n\nAnswer in verse.", "") == usual
    assert appended != usual


SPACE = [{"type": "text", "text": "  /cost"}]
LINK = [{"type": "text", "text": "/cost"}, {"type": "resource_link", "name": "a.py", "uri": "file:///tmp/a.py"}]
FILE = [
    {"type": "resource", "resource": {"uri": "file:///tmp/a.py", "text": "pass"}},
    {"type": "text", "text": "\n/cost "},
]


async def test_a_command_is_known_with_space_before_it_and_with_attachments(tmp_path: Path) -> None:
    async with introduced() as editor:
        for prompt in (SPACE, LINK, FILE):
            session = await editor.new(tmp_path)
            assert await editor.prompt(session, *prompt) == "end_turn"
            assert editor.seen(session).text().startswith("0 input tokens")


async def test_an_empty_prompt_is_refused_also_after_a_cancelled_turn(tmp_path: Path) -> None:
    async with (
        ModelServer([Held(Answer("Words, and then")), Answer("More.")]) as server,
        introduced(**everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        asked = editor.say(session, "Talk")
        await editor.until(lambda: "Words" in editor.seen(session).text(), "words")
        editor.tell("session/cancel", sessionId=session)
        await editor.answer(asked)
        for empty in ([], [{"type": "text", "text": ""}]):
            refused = await editor.refusal("session/prompt", sessionId=session, prompt=empty)
            assert (refused.code, "there is nothing to answer" in refused.message) == (-32602, True)
        assert len(server.requests) == 1
        server.release.set()
        assert await editor.prompt(session, " /continue") == "end_turn"
        assert editor.seen(session).text().endswith("More.")
