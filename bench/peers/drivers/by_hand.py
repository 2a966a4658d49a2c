# mypy: disable-error-code="import-not-found, no-any-return"
"""The limits: the shortest loops that do the job for OpenAI Chat. Each message is kept as bytes, nothing is checked.

`--client aiohttp` goes through the HTTP client that Outrider has too; `--client httptools` is an asyncio protocol with
nothing but a parser under it, one connection a conversation.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import common

IMPORTS = {
    "aiohttp": "import asyncio, aiohttp, msgspec",
    "httptools": "import asyncio, httptools, msgspec",
}
Post = Callable[[bytearray], Awaitable[bytes]]
"""A body, and what is answered to it."""
PATH = "/v1/chat/completions"
TOOL = (
    b'[{"type":"function","function":{"name":"answer","description":"Answer at once.","parameters":'
    b'{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}}]'
)


async def opened(options: common.Options) -> common.Run:
    """Conversations on one client, or on a connection each."""
    import msgspec

    connect = await _aiohttp(options) if options.more.client == "aiohttp" else _httptools(options)
    read = _read_stream if options.stream else _read_whole
    decode, encode = msgspec.json.decode, msgspec.json.encode
    stream = b"true" if options.stream else b"false"
    head = b'{"model":"%b","stream":%b,"tools":%b,"messages":[{"role":"user","content":"go"}]}'
    start = head % (options.model.encode(), stream, TOOL)

    async def answer(path: str) -> str:
        return await options.answer()

    async def run() -> object:
        post, close = await connect()
        body = bytearray(start)
        while True:
            text, calls = read(await post(body), decode)
            message: dict[str, Any] = {"role": "assistant", "content": text}
            body[-2:] = b",%b]}" % encode(message | ({"tool_calls": calls} if calls else {}))
            results = await common.together([answer(**decode(call["function"]["arguments"])) for call in calls])
            for call, result in zip(calls, results, strict=True):
                body[-2:] = b",%b]}" % encode({"role": "tool", "tool_call_id": call["id"], "content": result})
            if not calls:
                close()
                return body

    return run


def _read_whole(body: bytes, decode: Callable[[bytes], Any]) -> tuple[str, list[Any]]:
    message = decode(body)["choices"][0]["message"]
    return message["content"], message.get("tool_calls", [])


def _read_stream(body: bytes, decode: Callable[[bytes], Any]) -> tuple[str, list[Any]]:
    text = ""
    calls: list[Any] = []
    for delta in _deltas(body, decode):
        text += delta.get("content") or ""
        for part in delta.get("tool_calls", ()):
            if "id" in part:
                calls.append({"id": part["id"], "type": "function", "function": dict(part["function"])})
            else:
                calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
    return text, calls


def _deltas(body: bytes, decode: Callable[[bytes], Any]) -> Iterator[Any]:
    for line in body.split(b"\n"):
        if line.startswith(b"data: {"):
            yield decode(line[6:])["choices"][0]["delta"]


Connect = Callable[[], Awaitable[tuple[Post, Callable[[], None]]]]


async def _aiohttp(options: common.Options) -> Connect:
    import aiohttp

    client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    options.at_end.append(client.close)
    url = f"{options.url}{PATH}"
    headers = {"content-type": "application/json", "authorization": "Bearer k"}

    async def post(body: bytearray) -> bytes:
        async with client.post(url, data=body, headers=headers) as response:
            return await response.read()

    async def connect() -> tuple[Post, Callable[[], None]]:
        return post, lambda: None

    return connect


def _httptools(options: common.Options) -> Connect:
    import httptools

    address = urlsplit(options.url)
    head = f"POST {PATH} HTTP/1.1\r\nhost: {address.netloc}\r\nauthorization: Bearer k\r\n"
    start = head.encode() + b"content-type: application/json\r\ncontent-length: "

    class Connection(asyncio.Protocol):
        """One request after the other; what is answered is a future."""

        transport: asyncio.Transport
        answer: asyncio.Future[bytes]

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport

        def post(self, body: bytearray) -> asyncio.Future[bytes]:
            self.answer = asyncio.get_running_loop().create_future()
            self.parts: list[bytes] = []
            self.on_body = self.parts.append
            self.parser = httptools.HttpResponseParser(self)
            self.transport.write(b"%b%d\r\n\r\n" % (start, len(body)))
            self.transport.write(body)
            return self.answer

        def data_received(self, data: bytes) -> None:
            self.parser.feed_data(data)

        def on_message_complete(self) -> None:
            self.answer.set_result(b"".join(self.parts))

    async def connect() -> tuple[Post, Callable[[], None]]:
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(Connection, address.hostname, address.port)
        return connection.post, transport.close

    return connect


def extend(parser: argparse.ArgumentParser) -> None:
    """Which of the two."""
    parser.add_argument("--client", choices=tuple(IMPORTS), default="aiohttp")


if __name__ == "__main__":
    common.main("by-hand", "msgspec", lambda options: IMPORTS[options.more.client], opened, extend)
