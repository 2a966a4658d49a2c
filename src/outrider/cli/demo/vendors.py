"""Demo 9: one conversation, as six vendors receive it."""

from __future__ import annotations

import asyncio
import json

from outrider.cli.demo.apis import APIS, Api, body_for
from outrider.cli.demo.picture import form_of
from outrider.cli.demo.sample import read_file
from outrider.cli.demo.story import Story
from outrider.conversation.messages import Citation, ServerToolResultBlock, ServerToolUseBlock, TextBlock
from outrider.providers.testing.scripted import ScriptedModel, Step, call
from outrider.runtime.agent import Agent
from outrider.runtime.session import Session

VENDORS = (
    *APIS,
    Api("Amazon Bedrock", "bedrock/anthropic.claude-opus-5", ""),
    Api("Mistral", "mistral/mistral-medium-3-5", ""),
    Api("OpenRouter", "openrouter/google/gemini-3-pro", ""),
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
    session = Session(Agent(ScriptedModel(steps), tools=[read_file]), cwd=story.sample)
    for prompt in PROMPTS:
        story.printer.question(prompt)
        asyncio.run(session.run(prompt))
    story.print_lines("", f"  {'':<20} {'chart.png':<28} {'the search and its source'}")
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
