"""Demos 2 and 9: an image and a PDF from a tool, and one conversation, in the form that each API receives."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from outrider.cli.demo.story import Json, Story, read_file
from outrider.coding.stored_request import sending_provider
from outrider.conversation.codec import from_json, to_json
from outrider.conversation.messages import Citation, ServerToolResultBlock, ServerToolUseBlock, TextBlock
from outrider.conversation.store import MemoryStore
from outrider.log.log import Log
from outrider.providers.base import Request
from outrider.runtime.agent import Agent
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, Step, call
from outrider.text import human_size

PROMPT = "Look at chart.png and report.pdf."
FILES = ("chart.png", "report.pdf")
_FILE_PARTS = ("image", "document", "input_image", "input_file", "image_url", "file", "inlineData")


class Api(NamedTuple):
    """An API and a model to render requests for."""

    name: str
    model: str


APIS = (
    Api("Anthropic Messages", "anthropic/claude-sonnet-5-5"),
    Api("OpenAI Responses", "openai/gpt-6.1-terra"),
    Api("OpenAI Chat", "openai-chat/gpt-6.1-terra"),
    Api("Gemini", "gemini/gemini-4-argon"),
)
LOCAL = Api("a small local model", "ollama/qwen3")


def picture_from_a_tool(story: Story) -> str:
    """Send two files to four APIs and a small model; show that the stored history has no file bytes."""
    story.heading("each API gets the files in its own form")
    with Log(story.folder) as log:
        agent = Agent(model=story.model, tools=[read_file])
        with Session.open(log, agent=agent, cwd=story.sample, observer=story.printer.show) as session:
            story.printer.question(PROMPT)
            story.check(_checks(asyncio.run(session.run(PROMPT))))
            story.pause()
            _show_forms(story, session)
            _show_history(story, session)
    return "Files: an image and a PDF reach every model; the history stores references."


def _checks(result: RunResult) -> dict[str, bool]:
    results = [block for message in result.conversation for block in message.tool_results]
    kinds = [file.mime_type for block in results for file in block.attachments]
    return {
        f"the run ended with status {result.status!r}, not 'done'": result.status == "done",
        f"expected an image and a PDF, not {kinds}": kinds == ["image/png", "application/pdf"],
        "the answer does not mention the image": "640 × 400" in result.text,
    }


def _show_forms(story: Story, session: Session) -> None:
    story.print_lines("", "The form of each file in the request, by API:")
    story.print_lines("", f"  {'':<20} {FILES[0]:<28} {FILES[1]}")
    for api in (*APIS, LOCAL):
        body = body_for(api, session)
        forms = [form_of(body, story.sample / name) for name in FILES]
        story.print_lines(f"  {api.name:<20} {forms[0]:<28} {forms[1]}")
        story.check(
            {f"{api.name} receives nothing for {name}": bool(form) for name, form in zip(FILES, forms, strict=True)}
        )
        if api is not LOCAL:
            story.check({f"{api.name} does not receive the files themselves": all(map(_is_file, forms))})
    story.print_lines("", "  moved: in a user message after all results, labelled with the call.")


def form_of(body: Json, file: Path) -> str:
    """Describe how a request carries a file; empty if it does not."""
    encoded = b64encode(file.read_bytes()).decode()
    within = any(encoded in json.dumps(result) for result in results_of(body))
    for part in parts_of(body):
        kind = part.get("type") or next(iter(part), "")
        if kind in _FILE_PARTS and encoded in json.dumps(part):
            return f"{kind}, in the result" if within else f"{kind}, moved"
    text = json.dumps(body)
    if f"Text of {file.name}:" in text:
        return "converted to text"
    noted = re.search(rf"\[{re.escape(file.name)} \([^)]*\) cannot be shown: ", text)
    return "a note: no image input" if noted else ""


def _is_file(form: str) -> bool:
    return form.partition(",")[0] in _FILE_PARTS


def _show_history(story: Story, session: Session) -> None:
    saved = to_json(session.messages)
    reference = next(part for part in parts_of(json.loads(saved)) if part.get("type") == "attachment")
    story.print_lines("", f"The history is {human_size(len(saved.encode()))} of JSON; a file in it is a reference:")
    story.print_json("  ", reference)
    stored = b"".join(path.read_bytes() for path in story.folder.glob("*.db*"))
    story.check(
        {
            "there is no history on disk": bool(stored),
            "the history contains the bytes of a file": not any(
                _has_bytes(saved.encode(), story.sample / name) or _has_bytes(stored, story.sample / name)
                for name in FILES
            ),
            "the stored conversation differs from the original": from_json(saved, session.store) == session.messages,
        }
    )


def _has_bytes(stored: bytes, file: Path) -> bool:
    data = file.read_bytes()
    return data[:64] in stored or b64encode(data)[:64] in stored


def body_for(api: Api, session: Session) -> Json:
    body = sending_provider(api.model).render(Request(session.history.sendable(), session.store))
    decoded: Json = msgspec.json.decode(body)
    return decoded


def parts_of(value: Any) -> Iterator[Json]:
    """Yield every object in a request, outer objects first."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts_of(item)


def results_of(body: Json) -> list[Json]:
    """Return the tool results in a request, whatever the API calls them."""
    return [
        part
        for part in parts_of(body)
        if part.get("type") in ("tool_result", "function_call_output")
        or part.get("role") == "tool"
        or "functionResponse" in part
    ]


VENDORS = (
    *APIS,
    Api("Amazon Bedrock", "bedrock/anthropic.claude-opus-5"),
    Api("Mistral", "mistral/mistral-medium-3-5"),
    Api("OpenRouter", "openrouter/google/gemini-3-pro"),
)
SOURCE = "https://example.com/ferries"
PROMPTS = ("Search for the ferries.", "Look at chart.png.")


def one_conversation(story: Story) -> str:
    """Make a conversation with a search of one vendor, a source and a picture; show what each vendor gets."""
    story.heading("a search, a source and a picture go with it")
    answer = TextBlock("The ferry takes ten minutes.", citations=(Citation(SOURCE, "Ferries"),))
    search = ServerToolUseBlock("search_1", "web_search", {"query": "ferries"})
    found = ServerToolResultBlock("search_1", "Three pages about ferries.")
    steps: list[Step] = [[search, found, answer], ["I look.", call("read_file", path="chart.png")], "It rises."]
    session = Session(Agent(ScriptedModel(steps), tools=[read_file]), store=MemoryStore(), cwd=story.sample)
    for prompt in PROMPTS:
        story.printer.question(prompt)
        story.print_lines(asyncio.run(session.run(prompt)).text, "")
    story.print_lines(f"  {'':<20} {'chart.png':<28} {'the search and its source'}")
    for vendor in VENDORS:
        body = body_for(vendor, session)
        text = json.dumps(body)
        picture = form_of(body, story.sample / "chart.png")
        story.print_lines(f"  {vendor.name:<20} {picture:<28} {'as words' if SOURCE in text else 'lost'}")
        story.check(
            {
                f"{vendor.name} does not get the picture": bool(picture),
                f"{vendor.name} does not get the source": SOURCE in text,
                f"{vendor.name} does not get everything that was said": all(
                    words in text for words in (*PROMPTS, answer.text, "It rises.")
                ),
            }
        )
    return "Six vendors: each gets the whole conversation, with its source and picture."
