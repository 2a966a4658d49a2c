"""What an editor can use besides turns: the table of items and clients, what the model plays, and what must be seen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.asking import MODEL
from tests.interop import judging, scenes
from tests.interop.scenes import PROMPTS, SYSTEM_PROMPT, Stage
from tests.modelserver import Answer

Json = dict[str, Any]
YES, RAW, THOUGHT, NO = "yes", "as JSON", "as a thought", "no"
CLIENTS = ("TypeScript SDK", "Python SDK", "acp-client", "acpx")
TABLE = {
    "login methods (`authMethods`)": (YES, YES, RAW, YES),
    "mode, model and effort (config options)": (YES, YES, RAW, YES),
    "mode, model and effort after a reload": (YES, YES, RAW, YES),
    "system prompt of the client": (YES, YES, YES, YES),
    "commands and skills as slash commands": (YES, YES, YES, YES),
    "`/compact`": (YES, YES, YES, YES),
    "compaction updates": (YES, THOUGHT, RAW, THOUGHT),
    "titles": (YES, YES, YES, YES),
    "calls of sub-agents under their Task call": (YES, YES, YES, YES),
    "`reject_always`": (YES, YES, YES, NO),
    "prompts during a turn": (YES, YES, RAW, NO),
    "loading an open session": (YES, YES, RAW, NO),
    "fork": (YES, YES, RAW, NO),
    "forms (`elicitation`)": (YES, YES, NO, NO),
}
"""How each client was tried with each item: with its own interface, with JSON that the test sends through its
connection, or not at all. A compaction is a thought to clients that do not know its update."""

SUMMARY = "## Goal\nTalk about colours."
FILES = {
    ".outrider/commands/greet.md": "Greet $ARGUMENTS warmly.",
    ".outrider/skills/tidy/SKILL.md": "---\nname: tidy\ndescription: Tidies.\n---\nTidy up.",
}
_WRITE = {"file_path": "new.txt", "content": "Not wanted."}
_LOOK = {"command": "until [ -e go ]; do sleep 0.02; done"}
PLAYED = {
    "long": [Answer("Arr. " * 300)],
    "command": [Answer("Ahoy, Ada.")],
    "skill": [Answer("It is tidy.")],
    "never": [
        Answer("", calls=(("toolu_one", "Write", _WRITE),)),
        Answer("", calls=(("toolu_two", "Write", _WRITE),)),
        Answer("Then not."),
    ],
    "queued": [Answer("I look.", calls=(("toolu_look", "Bash", _LOOK),)), Answer("En français.")],
    "compact": [Answer(SUMMARY)],
}
"""The steps of the model, by scene. The scene `delegated` is played by the demo model."""


def stage(folder: Path, *played: str) -> AbstractAsyncContextManager[Stage]:
    """A stage with the command and the skill of the project, whose model plays these scenes, or all."""
    for name, text in FILES.items():
        file = folder / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return scenes.stage(folder, [step for scene in played or PLAYED for step in PLAYED[scene]])


class Show(NamedTuple):
    """What a client reported by scene, and what the model was sent."""

    seen: dict[str, Json]
    bodies: list[str]
    model: str = MODEL
    """The model that was chosen."""

    def asked(self, text: str) -> str:
        """The first request with this text."""
        return next(body for body in self.bodies if text in body)


def judge(client: str, show: Show) -> None:
    """Look at each item that this client was tried with."""
    column = CLIENTS.index(client)
    for item, judged in ITEMS.items():
        if (how := TABLE[item][column]) != NO:
            judged(show, how)


def _login_methods(show: Show, how: str) -> None:
    offered = {each["id"]: each for each in show.seen["introduced"]["authMethods"]}
    assert "outrider-login" in offered
    assert all(each["name"] for each in offered.values())


def _config_options(show: Show, how: str) -> None:
    first, effort, mode = (_values(show.seen["configured"][name]) for name in ("first", "effort", "mode"))
    assert (first["mode"], first["model"]) == ("ask", "demo")
    assert (effort["model"], effort["effort"], mode["mode"]) == (show.model, "high", "edits")


def _reloaded_options(show: Show, how: str) -> None:
    values = _values(show.seen["reloaded"]["options"])
    assert (values["mode"], values["model"], values["effort"]) == ("plan", show.model, "high")


def _values(options: list[Json]) -> dict[str, str]:
    return {each["id"]: each["currentValue"] for each in options}


def _system_prompt(show: Show, how: str) -> None:
    for text in ("Greet Ada warmly.", "Tidy up."):
        assert SYSTEM_PROMPT in show.asked(text)


def _slash_commands(show: Show, how: str) -> None:
    announced = {
        command["name"] for update in show.seen["whole"]["updates"] for command in update.get("availableCommands", ())
    }
    assert {"greet", "tidy", "compact"} <= announced
    assert show.asked("Greet Ada warmly.")
    assert show.asked("Tidy up.")
    assert (judging.words(show.seen["command"]["updates"]), judging.words(show.seen["skill"]["updates"])) == (
        "Ahoy, Ada.",
        "It is tidy.",
    )


def _compact(show: Show, how: str) -> None:
    assert show.seen["compact"]["stop"] == "end_turn"
    assert "the colours" in show.bodies[-1], "what is written after the command goes to the model"
    assert any(update["sessionUpdate"] == "usage_update" for update in show.seen["compact"]["updates"])


def _compaction_updates(show: Show, how: str) -> None:
    live = show.seen["compact"]["updates"]
    if how == THOUGHT:
        thoughts = [each["content"]["text"] for each in live if each["sessionUpdate"] == "agent_thought_chunk"]
        assert any("tokens" in thought for thought in thoughts), live
        return
    begun, ended = [each for each in live if each["sessionUpdate"] == "compaction_update"]
    assert (begun["status"], ended["status"]) == ("in_progress", "completed")
    assert begun["compactionId"] == ended["compactionId"]
    [replayed] = [each for each in show.seen["loaded"]["updates"] if each["sessionUpdate"] == "compaction_update"]
    assert SUMMARY in ended["summary"][0]["text"]
    assert replayed["summary"] == ended["summary"]


def _titles(show: Show, how: str) -> None:
    titles = [
        update["title"] for update in show.seen["delegated"]["updates"] if "session_info" in update["sessionUpdate"]
    ]
    assert titles == [PROMPTS["delegated"]]


def _sub_agents(show: Show, how: str) -> None:
    judging.is_delegated(show.seen["delegated"])


def _reject_always(show: Show, how: str) -> None:
    assert len(show.seen["never"]["permissions"]) == 1, "the second call is rejected without a question"
    calls = judging.calls(show.seen["never"]["updates"])
    assert {name: call["status"] for name, call in calls.items()} == {"toolu_one": "failed", "toolu_two": "failed"}


def _queued_prompts(show: Show, how: str) -> None:
    assert show.seen["queued"]["stops"] == ["end_turn", "end_turn"]
    with_result = show.asked('"tool_use_id":"toolu_look"')
    assert PROMPTS["french"] in with_result, "the model reads the prompt after the result of the call that ran"


def _loading_an_open_session(show: Show, how: str) -> None:
    loaded = show.seen["loaded"]["updates"]
    assert "Ahoy, Ada.It is tidy.Then not." in judging.words(loaded)
    assert {"toolu_one", "toolu_two"} <= set(judging.calls(loaded))
    judging.is_the_same(show.seen["delegated"]["again"], show.seen["delegated"]["updates"])


def _fork(show: Show, how: str) -> None:
    assert show.seen["delegated"]["fork"]
    assert show.seen["delegated"]["fork"] != show.seen["delegated"]["session"]


def _forms(show: Show, how: str) -> None:
    """They have a test of their own, test_elicitation.py, because they need an MCP server."""


ITEMS: dict[str, Callable[[Show, str], None]] = dict(
    zip(
        TABLE,
        (
            _login_methods,
            _config_options,
            _reloaded_options,
            _system_prompt,
            _slash_commands,
            _compact,
            _compaction_updates,
            _titles,
            _sub_agents,
            _reject_always,
            _queued_prompts,
            _loading_an_open_session,
            _fork,
            _forms,
        ),
        strict=True,
    )
)
