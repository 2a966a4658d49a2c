"""The tests of a product's agent, here of support_desk.py: `pytest test_support_desk.py`. They need no network."""

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from outrider import Deny, Log, Session
from outrider.errors import ValidationError
from outrider.providers import Request
from outrider.testing import Recorded, ScriptedModel, Step, TestModel, call, no_real_requests, tool_context
from support_desk import Order, Resolution, Shop, approve, desk, find_order, open_case, refund

REPORT = {"outcome": "refunded", "amount": "20", "reply": "You have it back."}


@pytest.fixture(autouse=True)
def offline() -> Iterator[None]:
    """A test that asks the real model of `desk` by mistake fails and names it."""
    with no_real_requests():
        yield


@pytest.fixture
def shop() -> Shop:
    return Shop("Ada", {"A-17": Order("A-17", Decimal(80))})


def test_a_tool_is_a_function(shop: Shop) -> None:
    context = tool_context(shop)
    assert find_order("A-18", context) == "there is no order A-18"
    assert refund("A-17", Decimal(90), "It broke.", context) == "not refunded: the order was 80 only"
    assert shop.refunds == {}


def test_a_tool_gets_what_a_model_writes_as_its_types(shop: Shop) -> None:
    context = tool_context(shop)
    refunded = asyncio.run(refund.invoke({"number": "A-17", "amount": "20.00", "reason": "It broke."}, context))
    assert (refunded.text, shop.refunds) == ("refunded 20.00 of 80", {context.key: Decimal("20.00")})
    with pytest.raises(ValidationError, match="amount"):
        asyncio.run(refund.invoke({"number": "A-17", "amount": "some", "reason": "It broke."}, context))


def test_a_small_refund_needs_no_person(shop: Shop) -> None:
    def last(request: Request) -> Step:
        assert request.messages[-1].tool_results[0].text == "refunded 20 of 80"
        return call("report_back", **REPORT)

    small = call("refund", number="A-17", amount="20", reason="It broke.")
    with ScriptedModel([call("find_order", number="A-17"), small, last]) as model:
        agent = desk.replace(model=model)
        result = asyncio.run(agent.run("It broke.", output=Resolution, deps=shop, approve=approve))
    assert result.output == Resolution("refunded", Decimal(20), "You have it back.")
    assert "You help Ada" in model.requests[0].system


def test_a_person_refuses_a_large_one(shop: Shop) -> None:
    async def run() -> str:
        large = call("refund", number="A-17", amount="80", reason="It broke.")
        agent = desk.replace(model=ScriptedModel([large, "Please send a picture."]))
        session = Session(agent, deps=shop, approve=approve)
        (question,) = (await session.run("It broke.")).questions
        assert question.text == "Refund 80 for A-17: It broke."
        await session.answer(question.id, Deny("send a picture first"))
        result = await session.run()
        return result.messages[2].tool_results[0].text

    assert "send a picture first" in asyncio.run(run())
    assert shop.refunds == {}


def test_tools_types_and_limits_fit_together(shop: Shop) -> None:
    model = TestModel(arguments={"refund": {"number": "A-17", "amount": "10", "reason": "A test."}})
    agent = desk.replace(model=model)
    result = asyncio.run(agent.run("Try everything.", output=Resolution, deps=shop, approve=approve))
    assert isinstance(result.output, Resolution)
    assert list(shop.refunds.values()) == [Decimal(10)]


def test_a_recorded_case_goes_as_it_went(shop: Shop, tmp_path: Path) -> None:
    """Record a case once with a real model, and keep the log with the tests. Here a script plays the model."""

    async def work(log: Log, case: str, model: ScriptedModel) -> Resolution:
        async with open_case(log, case, desk.replace(model=model), shop) as session:
            return (await session.run("It broke.", output=Resolution)).output

    small = call("refund", number="A-17", amount="20", reason="It broke.")
    with Log(tmp_path) as log:
        recorded = asyncio.run(work(log, "recorded", ScriptedModel([small, call("report_back", **REPORT)])))
        with Recorded(log, "recorded") as model:
            assert asyncio.run(work(log, "again", model)) == recorded
