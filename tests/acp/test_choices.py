"""Questions of the model in an editor: its form, or the options of a permission request where it has no forms."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.acp.choice_requests import OTHER, answer_in, form_of
from outrider.log.questions import Answer as Given
from outrider.log.questions import Choice, ChoiceField, ChoiceQuestion
from outrider.sync import default_log
from tests.acp.editor import Handler, Refused, introduced
from tests.cli.asking import everywhere
from tests.modelserver import Answer, ModelServer

COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "red", "description": "as the logo"}, {"label": "blue"}],
}
PARTS = {"question": "Which parts?", "options": [{"label": "door"}, {"label": "roof"}], "multiSelect": True}
WORDS = {"question": "What is it called?"}
FORMS = {"elicitation": {"form": {}}}


async def heard(
    folder: Path, handlers: dict[str, Handler], *questions: Any, capabilities: dict[str, Any] | None = None
) -> tuple[str, list[dict[str, Any]], Any]:
    """What the model reads, what the editor was asked for, and the finished call as it shows it."""
    call = Answer("", (("call_1", "AskUser", {"questions": list(questions)}),))
    async with (
        ModelServer([call, Answer("Done.")]) as server,
        introduced(handlers=handlers, capabilities=capabilities, **everywhere(server)) as editor,
    ):
        session = await editor.new(folder)
        assert await editor.prompt(session, "Go") == "end_turn"
        asked = [each for name in handlers for each in editor.asked_for(name)]
        return server.requests[-1].body.decode(), asked, editor.seen(session).calls["call_1"]


def form(action: str, **content: Any) -> dict[str, Handler]:
    return {"elicitation/create": lambda _: {"action": action, "content": content}}


def picking(*names: str) -> dict[str, Handler]:
    """Chooses the options with these names, one after the other."""
    wanted = iter(names)

    def choose(params: dict[str, Any]) -> Any:
        name = next(wanted)
        option = next(each for each in params["options"] if each["name"] == name)
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

    return {"session/request_permission": choose}


async def test_an_editor_with_forms_shows_one(tmp_path: Path) -> None:
    filled = form("accept", q1=OTHER, q1_own_words="pink", q2=["roof"], q2_own_words="a gate", q3="Ada")
    body, (asked,), call = await heard(tmp_path, filled, COLOUR, PARTS, WORDS, capabilities=FORMS)
    assert asked["mode"] == "form"
    fields = asked["requestedSchema"]["properties"]
    assert list(fields) == ["q1", "q1_own_words", "q2", "q2_own_words", "q3"]
    assert fields["q1"]["oneOf"][0] == {"const": "red", "title": "red – as the logo"}
    assert asked["requestedSchema"]["required"] == ["q1", "q3"]
    said = "Which colour? → pink", "Which parts? → roof, a gate", "What is it called? → Ada"
    assert "\\n".join(said) in body
    assert call["status"] == "completed"
    assert call["title"] == "AskUser(Colour, Which parts?, What is it called?)"
    assert call["content"] == [{"type": "content", "content": {"type": "text", "text": "\n".join(said)}}]


@pytest.mark.parametrize(
    "handlers",
    [
        form("decline", q1="red"),
        form("cancel", q1="red"),
        form("accept"),
        form("accept", q1=7),
        form("accept", q1=OTHER),
    ],
)
async def test_a_form_without_an_answer_is_declined(tmp_path: Path, handlers: dict[str, Handler]) -> None:
    body, _, call = await heard(tmp_path, handlers, COLOUR, capabilities=FORMS)
    assert "The user declined to answer." in body
    assert call["status"] == "completed"


async def test_an_editor_without_forms_asks_for_one_choice_after_the_other(tmp_path: Path) -> None:
    other = {"question": "Which size?", "options": [{"label": "small"}, {"label": "large"}]}
    body, asked, call = await heard(tmp_path, picking("red – as the logo", "large"), COLOUR, other)
    assert [each["toolCall"]["title"] for each in asked] == ["Which colour?", "Which size?"]
    assert {each["toolCall"]["toolCallId"] for each in asked} == {"call_1"}
    assert "Which colour? → red\\nWhich size? → large" in body
    assert call["title"] == "AskUser(Colour, Which size?)"


async def test_an_option_can_be_declined_without_forms(tmp_path: Path) -> None:
    body, _, _ = await heard(tmp_path, picking("Decline"), COLOUR)
    assert "The user declined to answer." in body


@pytest.mark.parametrize("question", [PARTS, WORDS])
async def test_without_forms_the_model_hears_what_cannot_be_asked(tmp_path: Path, question: Any) -> None:
    body, asked, call = await heard(tmp_path, {}, question)
    assert "this editor has no forms" in body
    assert "Ask again with options" in body
    assert (asked, call["status"]) == ([], "failed")


async def test_an_editor_that_cannot_ask_gives_no_answer(tmp_path: Path) -> None:
    def refuse(_: Any) -> Any:
        raise Refused(-32603, "no window")

    body, _, call = await heard(tmp_path, {"elicitation/create": refuse}, COLOUR, capabilities=FORMS)
    assert "the editor could not ask" in body
    assert call["status"] == "failed"


async def test_an_answer_elsewhere_comes_first_and_a_cancelled_turn_withdraws_the_question(tmp_path: Path) -> None:
    async def never(_: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    call = Answer("", (("call_1", "AskUser", {"questions": [COLOUR]}),))
    again = Answer("", (("call_2", "AskUser", {"questions": [COLOUR]}),))
    with default_log() as log:
        async with (
            ModelServer([call, Answer("Done."), again]) as server,
            introduced(handlers={"elicitation/create": never}, capabilities=FORMS, **everywhere(server)) as editor,
        ):
            session = await editor.new(tmp_path)
            number = editor.begin("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "Go"}]})
            await editor.until(lambda: log.inbox.questions(), "a question in the inbox")
            given = Given("answer", content={"q1": "blue"})
            assert log.inbox.answer(log.inbox.questions()[0].id, given, "on the web page")
            assert (await editor.answer(number))["stopReason"] == "end_turn"
            assert "Which colour? → blue" in server.requests[-1].body.decode()
            number = editor.begin("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "Go"}]})
            await editor.until(lambda: log.inbox.questions(), "another question in the inbox")
            editor.tell("session/cancel", sessionId=session)
            assert (await editor.answer(number))["stopReason"] == "cancelled"
            await editor.until(lambda: not log.inbox.questions(), "an empty inbox")


@given(
    st.booleans(),
    st.dictionaries(st.sampled_from(["q1", "q1_own_words"]), st.none() | st.text() | st.lists(st.integers())),
)
def test_nothing_is_made_up_from_what_a_form_says(multiple: bool, content: dict[str, Any]) -> None:
    field = ChoiceField(key="q1", text="Which?", choices=(Choice("red"), Choice("blue")), multiple=multiple)
    assert set(form_of(ChoiceQuestion(questions=(field,)))["properties"]) == {"q1", "q1_own_words"}
    answer = answer_in(field, content)
    said = [each for each in content.values() if isinstance(each, str) and each.strip()]
    assert sorted(answer if multiple else answer.split("; ") if answer else []) == sorted(set(said)) or (
        not multiple and all(each in answer for each in said)
    )
