"""Story 10: one conversation moves over six vendors, with server tools, citations and pictures on the way.

Each stop is a process of its own: `outrider -p … --continue --model …`. Anthropic searches and runs code, OpenAI's code
draws a picture, Gemini makes one, Chat Completions looks at a chart, Bedrock reads a PDF, Mistral calls two tools of
which one fails, OpenRouter searches and cites. Then the conversation comes back to Anthropic. One server stands for all
of them. It checks keys, fields and rules as each vendor does, and refuses what is wrong. Nothing is lost on the way.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image

from outrider.cli.demo.story import SAMPLE
from outrider.conversation.history import repair
from outrider.conversation.messages import AttachmentBlock, Message, TextBlock
from outrider.sync import default_log
from tests.adapters import Case
from tests.cli.asking import KEY, everywhere, latest, messages
from tests.cli.program import outrider
from tests.modelserver import ModelServer, Raw, Recorded, Status, Step
from tests.oracles import attachments_of, problems, type_errors
from tests.providers.canned import delta, events
from tests.searches import FOUND, PRINTED, RAN, USE, anthropic_stream, responses_stream
from tests.searches import PNG as DRAWN
from tests.streams import Answer, stream_of


def picture(colour: str) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(data, "PNG")
    return data.getvalue()


CHART = base64.b64encode((SAMPLE / "chart.png").read_bytes()).decode()
REPORT = base64.b64encode((SAMPLE / "report.pdf").read_bytes()).decode()
MADE = base64.b64encode(picture("teal")).decode()
ANNOTATION = {"url": "https://b.test", "title": "B", "content": "The Rhine.", "start_index": 0, "end_index": 9}


class Stop(msgspec.Struct):
    """A vendor on the way: its model, what it is asked, and what it streams."""

    model: str
    api: str
    prompt: str
    steps: Sequence[Answer | bytes]

    @property
    def case(self) -> Case:
        """The rules that its requests are judged by. Bedrock serves Claude with Anthropic's own."""
        prefix, _, model = self.model.partition("/")
        return Case("anthropic" if prefix == "bedrock" else prefix, model)


def read(number: int, path: str, **options: Any) -> tuple[str, str, dict[str, Any]]:
    return f"call_{number}", "Read", {"file_path": path, **options}


def painted_stream() -> bytes:
    image = {"inlineData": {"mimeType": "image/png", "data": MADE}, "thoughtSignature": "c2ln"}
    content = {"role": "model", "parts": [{"text": "Here it is:"}, image]}
    return events({"candidates": [{"content": content, "finishReason": "STOP"}]}, done=False)


def cited_stream() -> bytes:
    annotation = {"type": "url_citation", "url_citation": ANNOTATION}
    return events(delta(content="The Rhine flows by."), delta(content="", annotations=[annotation]), delta("stop"))


JOURNEY = (
    Stop("anthropic/claude-sonnet-4-5", "anthropic", "Search for Köln.", [anthropic_stream()]),
    Stop("openai/gpt-5.6", "openai", "Draw a diagram with code.", [responses_stream()]),
    Stop("gemini/gemini-3-pro-image", "gemini", "Make a picture of it.", [painted_stream()]),
    Stop(
        "openai-chat/gpt-5.6",
        "openai-chat",
        "Look at the chart.",
        [Answer("I look.", (read(1, "chart.png"),)), Answer("The chart rises.")],
    ),
    Stop(
        "bedrock/anthropic.claude-opus-5",
        "anthropic",
        "Read the report.",
        [Answer("I read.", (read(2, "report.pdf", original=True),)), Answer("The report is short.")],
    ),
    Stop(
        "mistral/mistral-medium-3-5",
        "openai-chat",
        "Compare the notes.",
        [Answer("Both.", (read(3, "notes.txt"), read(4, "missing.txt"))), Answer("One is missing.")],
    ),
    Stop("openrouter/google/gemini-3-pro", "openai-chat", "Which river?", [cited_stream()]),
    Stop("anthropic/claude-sonnet-4-5", "anthropic", "Sum it all up.", [Answer("A long way.")]),
)
"""Anthropic, OpenAI with both of its APIs, Google, Amazon, Mistral and OpenRouter, and home again."""


class Vendors:
    """The servers of all vendors: each request is judged before it is answered."""

    def __init__(self) -> None:
        self.stop = JOURNEY[0]
        self.steps: list[Answer | bytes] = []
        self.refusals: list[str] = []

    def at(self, stop: Stop) -> None:
        self.stop, self.steps = stop, list(stop.steps)

    def __call__(self, request: Recorded) -> Step:
        if found := list(self._objections(request)):
            self.refusals += found
            return Status(400, body=json.dumps({"error": {"message": "; ".join(found)}}).encode())
        step = self.steps.pop(0)
        return Raw(step if isinstance(step, bytes) else b"".join(stream_of(self.stop.api, step)))

    def _objections(self, request: Recorded) -> list[str]:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        keys = (given, *(request.headers.get(name) for name in ("x-api-key", "x-goog-api-key")))
        return [
            *([] if KEY in keys else ["there is no key"]),
            *([] if request.api == self.stop.api else [f"{request.path} is not of {self.stop.api}"]),
            *type_errors(request.api, request.json),
        ]


def environment(server: ModelServer) -> dict[str, str]:
    """Everything that a user of six vendors has set."""
    addresses = {"BEDROCK_BASE_URL": server.url, "MISTRAL_BASE_URL": server.url, "OPENROUTER_BASE_URL": server.url}
    keys = dict.fromkeys(("AWS_BEARER_TOKEN_BEDROCK", "MISTRAL_API_KEY", "OPENROUTER_API_KEY"), KEY)
    return everywhere(server) | addresses | keys | {"OUTRIDER_WEB_SEARCH": "on"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    shutil.copytree(SAMPLE, folder)
    return folder


@pytest.mark.timeout(300)
async def test_a_conversation_travels_over_six_vendors_and_comes_home_whole(project: Path) -> None:
    for stop in JOURNEY:
        type_errors(stop.api, {"messages": []})  # loads the vendor's types, which takes longer than an answer should
    vendors = Vendors()
    before: list[Message] = []
    async with ModelServer(vendors) as server:
        for number, stop in enumerate(JOURNEY):
            vendors.at(stop)
            first = len(server.requests)
            arguments = ("-p", stop.prompt, "--model", stop.model, "--permissions", "all", *["--continue"][:number])
            ended = await asyncio.to_thread(outrider, *arguments, cwd=project, **environment(server))
            assert (ended.returncode, vendors.refusals) == (0, []), f"{stop.model}: {ended.stderr}"
            said = messages()
            assert said[: len(before)] == before, f"{stop.model} changed what was said before it"
            for count, request in enumerate(server.requests[first:]):
                judge(stop, request, said[: len(before) + 1 + 2 * count])
            before = said
            assert not vendors.steps
        requests = server.requests
    assert all(b"https://a.test" in request.body for request in requests[1:]), "every vendor reads what was found"
    everything_is_there(requests[-1].json)
    everything_is_in_the_log(before)


def judge(stop: Stop, request: Recorded, said: Sequence[Message]) -> None:
    """Hold a request against the conversation so far: calls, results, files and labels are all there."""
    with default_log() as log:
        assert problems(stop.case, request.json, repair(said), log.files(latest())) == [], stop.model


def everything_is_there(body: Any) -> None:
    """What Anthropic gets in the end: its own blocks as they were, and the others' words, sources and files."""
    assert body["messages"][1]["content"][:4] == [USE, FOUND, RAN, PRINTED]
    whole = json.dumps(body, ensure_ascii=False)
    for stop in JOURNEY[:-1]:
        assert stop.prompt in whole
    for words in (
        "Köln: ",
        "Here it is:",
        "The chart rises.",
        "The report is short.",
        "One is missing.",
        "The Rhine flows by.",
    ):
        assert words in whole
    assert "[sources: [B](https://b.test)]" in whole
    for name, data in {"chart.png": CHART, "report.pdf": REPORT, "the made one": MADE, "the drawn one": DRAWN}.items():
        assert whole.count(data) == 1, f"{name} is there {whole.count(data)} times"


def everything_is_in_the_log(said: Sequence[Message]) -> None:
    """Citations and files have stayed with the messages that have them."""
    texts = [block for message in said for block in message.content if isinstance(block, TextBlock)]
    sources = [citation.url for text in texts for citation in text.citations]
    assert sources == ["https://a.test", "https://a.test", "https://b.test"]
    files: list[AttachmentBlock] = list(attachments_of(said))
    assert sorted(file.mime_type for file in files) == ["application/pdf", *["image/png"] * 3]
