"""Names of prompts and resources for completion, read when servers have them."""

from __future__ import annotations

from typing import Any

from outrider.cli.chat.completion import ServerNames


class Servers:
    """Servers of which one gets ready just after the first look at them."""

    def __init__(self) -> None:
        self.looks = 0

    @property
    def starting(self) -> tuple[str, ...]:
        return () if self.looks else ("slow",)

    def do_now(self, work: object, seconds: float) -> tuple[dict[str, str], dict[str, str]]:
        self.looks += 1
        return ({"slow:greet": ""}, {"slow:memo": ""}) if self.looks > 1 else ({}, {})


def test_a_server_that_gets_ready_after_a_look_is_asked_at_once() -> None:
    servers: Any = Servers()
    names = ServerNames(lambda: servers)
    assert names.prompts() == {}
    assert list(names.prompts()) == ["slow:greet"]
    assert list(names.resources("memo")) == ["slow:memo"]
    assert servers.looks == 2
