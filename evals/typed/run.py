"""Ask a model for twenty typed answers, and say how many are valid, and how many are right.

.venv/bin/python evals/typed/run.py http://127.0.0.1:8080/v1#qwen
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from time import monotonic
from typing import Any

from outrider import Agent, Limits, tool

STOCK = {
    "pen": {"count": 40, "price": 1.2, "supplier": "Brandt"},
    "book": {"count": 7, "price": 12.5, "supplier": "Okoro"},
    "chair": {"count": 6, "price": 49.9, "supplier": "Meyer"},
    "lamp": {"count": 0, "price": 19.0, "supplier": "Meyer"},
}


@tool(effect="read")
def look_up(item: str) -> dict[str, Any] | str:
    """Look up one item of the shop: how many are in stock, the price and the supplier.

    Args:
        item: The item, in the singular: pen, book, chair or lamp.
    """
    return STOCK.get(item.lower().removesuffix("s"), f"There is no {item}. There are: {', '.join(STOCK)}.")


async def ask(case: dict[str, Any], model: str) -> dict[str, Any]:
    """Return what the model answered."""
    agent = Agent(model, tools=[look_up] if case.get("tools") else [], limits=Limits(max_turns=8, max_seconds=900))
    began = monotonic()
    result = await agent.run(case["prompt"], output=case["schema"])
    valid, data = result.has_structured_output, result.structured_output
    return {
        "name": case["name"],
        "valid": valid,
        "right": valid and _plain(data) == _plain(case["expected"]),
        "answer": data if valid else result.error or result.text,
        "turns": result.turns,
        "seconds": round(monotonic() - began, 1),
    }


def _plain(value: Any) -> Any:
    """Return a value without what does not matter: the case of texts."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.strip().lower() if isinstance(value, str) else value


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    options = parser.parse_args()
    cases = json.loads((Path(__file__).parent / "cases.json").read_text())
    answers = []
    for case in cases:
        answers.append(answer := await ask(case, options.model))
        print(json.dumps(answer, ensure_ascii=False), flush=True)
    valid, right = (sum(bool(each[key]) for each in answers) for key in ("valid", "right"))
    print(f"{valid} of {len(cases)} valid, {right} right")


if __name__ == "__main__":
    asyncio.run(_main())
