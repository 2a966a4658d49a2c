"""Recall in a session: it appears once something is no longer sent, stays after a resume, and finds every fact."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from outrider import Agent, Attachment, Compaction, Limits, Log, Session, tool
from outrider.coding import Workspace, standard_tools
from outrider.conversation.messages import Message, files_in
from outrider.providers.base import Request
from outrider.testing import ScriptedModel, Step, call
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.threads import Threads
from tests.lengths import only_long

FACTS = 100


def secret(number: int) -> str:
    """The code of a drawer, which nobody can guess."""
    return f"code-{number * 7919 % 100_003:06d}"


def look(number: int) -> str:
    """Look into a drawer."""
    return f"Drawer number-{number}: the code is {secret(number)}. {'It is full of old letters. ' * 75}"


def searching(request: Request) -> Step:
    """A model that looks into all drawers, and searches for the one that it is asked about later."""
    if "Write a summary" in request.reminder:
        return "## Goal\nLook into the drawers."
    last = request.messages[-1]
    if last.tool_results:
        text = last.tool_results[0].text
        if text.startswith("Drawer"):
            number = int(text.split("number-")[1].split(":")[0])
            return call("look", number=number + 1) if number < FACTS else "Done."
        return f"I recall: {text}"
    if last.text.startswith("Open"):
        return call("look", number=1)
    return call("Recall", query=last.text.split()[-1])


def agent(model: ScriptedModel, clear_at: float | None = 0.6) -> Agent:
    return Agent(
        model,
        tools=[look],
        limits=Limits(max_turns=None, max_repeats=None),
        compaction=Compaction(clear_threshold=clear_at),
    )


def recalled(session: Session, **arguments: object) -> str:
    context: ToolContext[None] = ToolContext(CallRef("r"), Path(), Threads(), lambda _: None, result_characters=3200)
    return asyncio.run(next(tool for tool in session.tools if tool.name == "Recall").invoke(arguments, context)).text


def names(request: Request) -> list[str]:
    return [spec.name for spec in request.tools]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("place", ["log", *only_long("memory")])
@pytest.mark.parametrize("clear_at", [None, 0.6], ids=["compacted", "cleared"])
def test_every_fact_from_before_the_cuts_is_found_and_read(tmp_path: Path, place: str, clear_at: float | None) -> None:
    model = ScriptedModel(searching, window=8_000)
    log = Log(tmp_path)
    session = (
        Session(agent(model, clear_at)) if place == "memory" else Session.open(log, agent=agent(model, clear_at)).now()
    )
    with session:
        assert asyncio.run(session.run("Open the drawers.")).status == "done"
        assert "Recall" not in names(model.requests[0])
        assert "Recall" in names(model.requests[-1])
        sent = "".join(str(message) for message in model.requests[-1].messages)
        assert secret(3) not in sent
        for number in range(1, FACTS + 1):
            found = recalled(session, query=f"number-{number}:")
            assert secret(number) in found
            reference = next(line for line in found.split("\n") if "result of look" in line)[2:].split(" (")[0]
            assert f"Drawer number-{number}: the code is {secret(number)}." in recalled(session, reference=reference)
        answer = asyncio.run(session.run("What is the code of drawer number-3:"))
        assert secret(3) in answer.text
    log.close()


def test_it_stays_after_a_resume_and_with_another_agent(tmp_path: Path) -> None:
    model = ScriptedModel(searching, window=8_000)
    with Log(tmp_path) as log:
        with Session.open(log, agent=agent(model)) as session:
            asyncio.run(session.run("Open the drawers."))
            name = session.id
        assert "Recall" not in (log.settings(name).tools or ()), "it is no tool of the agent"
        with Session.open(log, name, agent=agent(model)) as again:
            answer = asyncio.run(again.run("What is the code of drawer number-5:"))
            assert secret(5) in answer.text
            again.agent = agent(model).replace(system="Be brief.")
            assert secret(6) in asyncio.run(again.run("What is the code of drawer number-6:")).text
        with Session.open(log, log.fork(name), agent=agent(model)) as copy:
            assert secret(7) in asyncio.run(copy.run("What is the code of drawer number-7:")).text


@pytest.mark.parametrize("resumed", [False, True])
async def test_an_attached_text_that_is_sent_in_part_can_be_read_to_its_end(tmp_path: Path, resumed: bool) -> None:
    text = "".join(f"line {number}\n" for number in range(10_000))

    def reading(request: Request) -> Step:
        if not request.messages[-1].text.startswith("Read") and not request.messages[-1].tool_results:
            return "Later."
        if last := request.messages[-1].tool_results:
            return last[0].text[-200:]
        (file,) = files_in(request.messages[0])
        return call("Recall", reference=f"attachment:{file.sha256}", page=4)

    prompt = Message.user("Wait." if resumed else "Read it.", Attachment(text.encode(), "text/plain", "long.log"))
    model = ScriptedModel(reading, window=64_000)
    with Log(tmp_path) as log:
        async with await Session.open(log, agent=Agent(model)) as session:
            answer = await session.run(prompt)
        if resumed:
            async with await Session.open(log, session.id, Agent(model)) as session:
                answer = await session.run("Read it.")
        assert "line 9999\n" in answer.text
        assert [names(each) for each in model.requests] == [["Recall"]] * len(model.requests), "the prefix stays"


async def test_texts_that_are_attached_one_after_the_other_share_the_room() -> None:
    model = ScriptedModel(["I see."] * 3, window=64_000)
    session = Session(Agent(model))
    for count in range(3):
        await session.run(Message.user("Look.", Attachment(b"line\n" * 7_000 + b"%d" % count, "text/plain", "a.log")))
    assert [names(each) for each in model.requests] == [[], ["Recall"], ["Recall"]]


async def test_an_attached_text_that_fits_or_that_a_tool_reads_brings_no_recall(tmp_path: Path) -> None:
    short, long = (Attachment(b"line\n" * count, "text/plain", "a.log") for count in (1_000, 20_000))
    for file, tools in ((short, []), (long, standard_tools(Workspace(tmp_path), ["Read"]))):
        model = ScriptedModel(["I see."], window=64_000)
        await Session(Agent(model, tools=tools)).run(Message.user("Look.", file))
        assert "Recall" not in names(model.requests[0])


def test_a_tool_of_the_same_name_is_not_replaced() -> None:
    @tool(name="Recall")
    def own(query: str) -> str:
        """Recall the product."""
        return "the product is recalled"

    session = Session(agent(ScriptedModel(searching, window=8_000)).replace(tools=[look, own]))
    asyncio.run(session.run("Open the drawers."))
    assert asyncio.run(session.run("What about number-3:")).text == "I recall: the product is recalled"


def test_no_approver_in_the_program_asks_about_it(tmp_path: Path) -> None:
    from outrider.coding.config.settings import Settings
    from outrider.coding.front_end import FrontEnd
    from outrider.coding.workbench import Workbench

    asked: list[object] = []

    async def ask(question: object) -> None:
        asked.append(question)

    bench = Workbench(Settings(), tmp_path, front_end=FrontEnd(ask))  # type: ignore[arg-type]
    for mode in ("ask", "plan"):
        bench.permissions.mode = mode  # type: ignore[assignment]
        model = ScriptedModel(recalls_once())
        said = [Message.user("the colour is vermilion"), Message.assistant("ok")] * 3
        session = Session(Agent(model), said, approve=bench.permissions)
        asyncio.run(session.compact())
        assert "vermilion" in asyncio.run(session.run("Which colour?")).text
    bench.close()
    assert not asked


def recalls_once() -> Callable[[Request], Step]:
    def step(request: Request) -> Step:
        if "Write a summary" in request.reminder:
            return "## Goal\nTalk."
        if request.messages[-1].tool_results:
            return request.messages[-1].tool_results[0].text
        return call("Recall", query="vermilion")

    return step
