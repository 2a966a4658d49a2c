"""Files that a request to a small model names and that are not there: the model is told, and a run is sent back.

Small models change another file instead, and say that they have written one when they have not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from outrider.conversation.messages import Message
from outrider.prompts import prompt
from outrider.runtime.hooks import AfterTool, HookResult, Hooks, PromptSubmitted, Stop, newest_request
from outrider.text import shorten

MOST_TIMES = 2
"""How often one run is sent back."""
LONGEST_REQUEST = 2_000
_FILE_NAME = re.compile(
    r"(?<![\w/:@.-])(?:\.{0,2}/)?(?:[\w-]+/)*"
    r"(?:[\w-]{2,}\.[A-Za-z]|[\w-]\.[A-Za-z][A-Za-z0-9])[A-Za-z0-9]{0,4}(?![\w/@(-]|\.\w)"
)
"""A name with an ending, which is no number, address, call or abbreviation such as "e.g."."""


class MissingFiles:
    """Hooks that tell of a missing file after each call, and send a run back that ends without it."""

    def __init__(self, names: Callable[[], Sequence[str]]) -> None:
        """`names` returns the files of the working folder, relative to it."""
        self._names = names
        self.messages: Callable[[], Sequence[Message]] = tuple
        """Returns the conversation: a run that goes on after a kill has its request there."""
        self._request = ""
        self._times = 0

    def added_to(self, hooks: Hooks) -> Hooks:
        """Return hooks with these."""
        return replace(
            hooks,
            prompt_submitted=(*hooks.prompt_submitted, self.remember),
            after_tool=(*hooks.after_tool, self.tell),
            stop=(*hooks.stop, self.check),
        )

    async def remember(self, event: PromptSubmitted) -> None:
        self._request, self._times = event.prompt, 0

    async def tell(self, _: AfterTool) -> HookResult | None:
        missing = self._missing()
        return HookResult(context=f"There is no file {_listed(missing)} yet.") if missing else None

    async def check(self, event: Stop) -> HookResult | None:
        missing = self._missing() if self._times < MOST_TIMES else []
        if not missing:
            return None
        self._times += 1
        said = prompt("missing_files").replace("{files}", _listed(missing))
        return HookResult(block=said.replace("{request}", shorten(self._request, LONGEST_REQUEST, "[…]")))

    def _missing(self) -> list[str]:
        self._request = self._request or newest_request(reversed(self.messages()))
        return missing_files(self._request, self._names())


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names[:3])


def missing_files(request: str, names: Sequence[str]) -> list[str]:
    """Return the names of files in a request that are not among the `names`.

    >>> missing_files("Write the sum of orders.csv to out/sum.json, as in v1.2 of example.org/a.", ["orders.csv"])
    ['out/sum.json']
    """
    there = {each.rpartition("/")[2] for each in names}
    found = dict.fromkeys(each.group() for each in _FILE_NAME.finditer(request))
    return [name for name in found if name.rpartition("/")[2] not in there]
