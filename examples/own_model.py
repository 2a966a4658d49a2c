"""A provider of your own: a model behind a gateway that takes JSON and answers with one JSON object a line.

docs/providers/own.md has the contract. The gateway at the end stands in for yours, so that the example runs.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from outrider import Agent, Message, TextBlock, ToolResultBlock, ToolUseBlock, Usage, tool
from outrider.errors import ProviderError, RateLimitedError, RequestRefusedError, UnavailableError
from outrider.events import Delta, Notice, TextDelta, ToolCallDelta
from outrider.messages import AttachmentBlock, Block, ProviderState, RawBlock
from outrider.providers import Reply, Request, StopReason

STOPS = {"stop": StopReason.END, "calls": StopReason.TOOL_USE, "length": StopReason.MAX_TOKENS}


class Gateway:
    """A model of the gateway."""

    window = 32_000  # tokens; without it, long conversations are not shortened

    def __init__(self, url: str, model: str) -> None:
        self.name = f"gateway/{model}"
        self._url, self._model = url, model

    async def stream(self, request: Request) -> AsyncIterator[Delta | Notice | Reply]:
        """Send the request once. Yield deltas and then the reply; raise ProviderError."""
        if any(isinstance(block, AttachmentBlock) for block in request.messages[-1].content):
            yield Notice(f"{self.name} does not see files; it reads their names")
        content: list[Block] = []
        limit = aiohttp.ClientTimeout(total=None, sock_read=request.idle_seconds)
        try:
            async with (
                aiohttp.ClientSession(timeout=limit) as http,
                http.post(self._url, json=self._body(request)) as found,
            ):
                if found.status != 200:
                    raise failure(found.status, await found.text(), found.headers.get("Retry-After"))
                async for line in found.content:
                    match json.loads(line):
                        case {"text": str(text)}:
                            add_text(content, text)
                            yield TextDelta(text)
                        case {"call": str(id), "name": str(name), "arguments": str(arguments)}:
                            content.append(call_of(id, name, arguments))
                            yield ToolCallDelta(id, name, arguments)
                        case {"end": str(reason), "input": int(read), "output": int(written)}:
                            message = Message("assistant", tuple(content))
                            yield Reply(message, STOPS.get(reason, StopReason.OTHER), Usage(read, written))
                            return
                        case part:  # something new: keep it, and send it back as it came
                            content.append(RawBlock("part", ProviderState("gateway", self._model, part)))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise UnavailableError(f"the gateway broke off: {error!r}", retryable=True) from error

    def _body(self, request: Request) -> dict[str, Any]:
        messages = [{"role": each.role, "parts": [*self._parts(each)]} for each in request.messages]
        if request.reminder:  # for this request only
            messages.append({"role": "user", "parts": [{"text": f"[From the runtime] {request.reminder}"}]})
        tools = [{"name": each.name, "about": each.description, "schema": each.parameters} for each in request.tools]
        settings = {"max_tokens": request.settings.max_tokens, **request.settings.options}
        return {"model": self._model, "system": request.system, "messages": messages, "tools": tools, **settings}

    def _parts(self, message: Message) -> Iterator[Any]:
        for block in message.content:
            match block:
                case TextBlock(text=text):
                    yield {"text": text}
                case ToolUseBlock():
                    arguments = json.dumps(block.input) if block.invalid_input is None else block.invalid_input
                    yield {"call": block.id, "name": block.name, "arguments": arguments}
                case ToolResultBlock():
                    files = [f"[a file: {file.label}]" for file in block.attachments]
                    yield {
                        "result": block.tool_use_id,
                        "text": "\n".join([block.text, *files]),
                        "error": block.is_error,
                    }
                case AttachmentBlock():
                    yield {"text": f"[a file that you cannot see: {block.label}]"}
                case RawBlock(state=ProviderState(provider="gateway", model=self._model, data=data)):
                    yield data
                case _:  # reasoning, and parts of other vendors' replies
                    pass


def add_text(content: list[Block], text: str) -> None:
    """Add a piece of text to the text before it."""
    match content:
        case [*_, TextBlock(text=before)]:
            content[-1] = TextBlock(before + text)
        case _:
            content.append(TextBlock(text))


def call_of(id: str, name: str, arguments: str) -> ToolUseBlock:
    """Return a call. Arguments that are not a JSON object go back to the model, with what is wrong."""
    try:
        return ToolUseBlock(id, name, msgspec.json.decode(arguments, type=dict[str, Any]))
    except ValueError:
        return ToolUseBlock(id, name, {}, arguments)


def failure(status: int, text: str, wait: str | None) -> ProviderError:
    """Return the error for a response. The session sends the request again if it is retryable."""
    if status == 429:
        after = float(wait) if wait else None
        return RateLimitedError(f"the gateway is busy: {text}", status=status, retryable=True, retry_after=after)
    kind = UnavailableError if status >= 500 else RequestRefusedError
    return kind(f"the gateway answered {status}: {text}", status=status, retryable=status >= 500)


async def answer(request: web.Request) -> web.Response:
    """Stand in for a gateway with a model: add two numbers with the tool."""
    last = (await request.json())["messages"][-1]["parts"][0]
    call = {"call": "c1", "name": "add", "arguments": '{"a": 2, "b": 3}'}
    lines = [{"text": f"It is {last['text']}."}] if "result" in last else [{"text": "I'll add them."}, call]
    end = {"end": "stop", "input": 20, "output": 5}
    return web.Response(text="".join(json.dumps(line) + "\n" for line in [*lines, end]))


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    app = web.Application()
    app.add_routes([web.post("/generate", answer)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    model = Gateway(f"http://127.0.0.1:{runner.addresses[0][1]}/generate", "small")
    result = await Agent(model, tools=[add]).run("What is 2 and 3?")
    print(result.text, result.usage.total_tokens)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
