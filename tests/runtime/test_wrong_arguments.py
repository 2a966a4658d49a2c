"""Arguments of the wrong type are refused where they are given, with a sentence that says what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Log, Message, Session, ask, run, think
from outrider.errors import ToolDefinitionError
from outrider.runtime.event_loop import run_sync
from outrider.testing import ScriptedModel, call
from outrider.types import SessionFilter

AGENT = Agent("demo")
MESSAGES = [Message.user("What is 2+2?")]


def look(path: str) -> str:
    "Look."
    return path


def prompted(prompt: Any) -> Callable[[], object]:
    return lambda: run_sync(AGENT.run(prompt))


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (prompted([]), "the prompt is an empty list; give text, a file or messages"),
        (
            lambda: think([*MESSAGES, Message.assistant("4")], model="demo"),
            'ends with the model\'s answer; add a prompt: [*conversation, "…"]',
        ),
        (prompted([{"type": "text", "text": "Hi"}]), "message 1 has the role None; a role is 'user' or 'assistant'"),
        (prompted(AGENT.session()), "not Session; write str(…)"),
        (prompted(["Look", [b"bytes"]]), "not list; put * before a list of parts"),
        (prompted(Path("chart.png")), "write Attachment.from_path(…) to send a file"),
        (prompted(b"bytes"), "not bytes; write Attachment(…) to send a file"),
        (prompted(None), "not NoneType; leave it out if there is none"),
        (prompted(7), "not int; write str(…)"),
        (lambda: think(think("Hi", tools=[], model="demo"), model="demo"), "not Turn; write ….conversation to go on"),  # type: ignore[call-overload]
        (lambda: run("Hi", max_turns="3", model="demo"), "max_turns is '3'; it must be a whole number"),  # type: ignore[call-overload]
        (lambda: run("Hi", model=[]), "the list of models is empty"),
    ],
)
def test_what_is_no_prompt_says_how_to_send_it(action: Callable[[], object], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(says)):
        action()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"system": lambda: "Be brief."}, "a system prompt is a function of the context"),
        ({"system": None}, "system is text or a function that returns it, not NoneType"),
        ({"name": 5}, "name must be a string, not int"),
        ({"limits": {"max_turns": 3}}, "limits must be Limits(…), as in Limits(max_turns=10), not dict"),
        ({"retry": 3}, "retry must be Retry(…), as in Retry(seconds=60), not int"),
        ({"compaction": True}, "compaction must be Compaction(…), or None to turn it off"),
        ({"options": ["top_p"]}, "options must be a mapping of fields of the request, not list"),
        ({"temperature": "hot"}, "temperature is 'hot'; it must be a number from 0 to 2"),
        ({"max_tokens": "many"}, "max_tokens is 'many'; it must be a number over 0"),
        ({"deps_type": AGENT}, "deps_type is a type, as in deps_type=Agent; the run or its session gets deps=Agent(…)"),
        ({"handoffs": AGENT}, "handoffs must be a list of agents; write handoffs=[…]"),
        ({"handoffs": "billing"}, "handoffs must be a list of agents; write handoffs=[…]"),
        ({"tools": "look"}, "not the name 'look'; write tools=[look]"),
        ({"tools": {"look": look}}, "tools must be a list of functions; write tools=[…]"),
    ],
)
def test_an_agent_names_the_field_that_is_wrong(fields: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError, ToolDefinitionError), match=re.escape(says)):
        Agent("demo", **fields)


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (
            lambda wrong: think("Hi", **wrong),
            "think takes no 'sytem'; beside the prompt it takes conversation, effort, ",
        ),
        (lambda wrong: run("Hi", **wrong), "run takes no 'sytem'; beside the prompt it takes compaction, effort, "),
        (lambda wrong: ask("Hi", **wrong), "ask takes no 'sytem'; beside the prompt it takes effort, limits, "),
        (lambda wrong: run_sync(AGENT.think("Hi", **wrong)), "Agent.think takes no 'sytem'"),
        (lambda wrong: run_sync(AGENT.run("Hi", **wrong)), "a run of an agent takes no 'sytem'"),
        (lambda wrong: run_sync(AGENT.ask("Hi", **wrong)), "it takes approve, cwd, deps, effort, limits, max_tokens, "),
        (lambda wrong: run_sync(Session(AGENT).think("Hi", **wrong)), "Session.think takes no 'sytem'"),
        (
            lambda wrong: run_sync(Session(AGENT).run("Hi", **wrong)),
            "it takes deps, effort, limits, max_tokens, output",
        ),
    ],
)
def test_an_option_that_a_verb_does_not_take_is_named_with_those_that_it_takes(
    action: Callable[[dict[str, Any]], object], says: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(says)):
        action({"sytem": "Be brief."})


@pytest.mark.parametrize("verb", [think, run, ask])
def test_a_field_of_agents_that_a_script_verb_does_not_take_is_refused(verb: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="takes no 'description'"):
        verb("Hi", description="Reads.", model="demo")


@pytest.mark.parametrize("script", ["Hello.", call("look", path="a"), Message.assistant("Hello.")])
def test_a_script_is_a_list_of_steps(script: Any) -> None:
    with pytest.raises(TypeError, match=re.escape("the script is a list of steps: ScriptedModel([")):
        ScriptedModel(script)


def test_a_filter_of_sessions_is_given_by_its_name(tmp_path: Path) -> None:
    with Log(tmp_path) as log, pytest.raises(TypeError, match=re.escape("where=SessionFilter(…)")):
        log.sessions(SessionFilter(owner="ada"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"approve": True}, "approve must be a function of a call and its tool, not True"),
        ({"store": "/tmp"}, "store must be MemoryStore() or FolderStore(folder), not str"),
        ({"observer": 5}, "an observer is a function of an event, not 5"),
    ],
)
def test_a_session_refuses_what_it_could_not_call(options: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=re.escape(says)):
        Session(AGENT, **options)


@pytest.mark.parametrize("place", ["/tmp/sessions.db", Path("sessions.db"), AGENT])
def test_a_session_is_opened_in_a_log_not_in_a_path(place: Any) -> None:
    with pytest.raises(TypeError, match=re.escape("the first argument is a Log, as in Log('sessions'), not ")):
        Session.open(place, agent=AGENT)


async def test_limits_of_a_run_are_limits() -> None:
    with pytest.raises(TypeError, match=re.escape("as in Limits(max_turns=10), not dict")):
        await Session(AGENT).run("Hi", limits={"max_turns": 1})  # type: ignore[call-overload]


def test_a_session_that_is_not_open_yet_says_how_to_open_it(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log, pytest.raises(AttributeError, match=r"use `async with Session\.open\(…\) as"):
        Session.open(log, agent=AGENT).run("Hi")  # type: ignore[attr-defined]


def test_the_log_comes_before_the_agent(tmp_path: Path) -> None:
    with Log(tmp_path / "log.db") as log, pytest.raises(TypeError, match=r"A new one: Session\.open\(log, agent="):
        Session.open(log, AGENT)  # type: ignore[arg-type]
