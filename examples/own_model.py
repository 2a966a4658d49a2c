"""Any object with a name and a stream() method is a model."""

from collections.abc import AsyncIterator

from outrider import Message, think
from outrider.events import Delta, TextDelta
from outrider.providers import Reply, Request


class Echo:
    """Repeats the prompt in capitals."""

    name = "echo"

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        text = request.messages[-1].text.upper()
        yield TextDelta(text)
        yield Reply(Message.assistant(text))


print(think("hello", model=Echo()))
