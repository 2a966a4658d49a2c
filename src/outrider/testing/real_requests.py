"""A switch for tests: requests to real models are refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn
from unittest import mock

from outrider.providers.api import ApiProvider
from outrider.providers.base import Request


@contextmanager
def no_real_requests() -> Iterator[None]:
    """Refuse requests to models behind an API, in the whole process, to the end of the block.

    Such a request raises AssertionError, which names the model and reaches the caller of the run. A fixture of pytest
    can be such a block, as can a part of a test; blocks can be nested. Models of `outrider.testing`, the demo model and
    providers of your own are not refused, nor are requests of MCP servers and tools.

    >>> from outrider import think
    >>> with no_real_requests():
    ...     think("What is 2+2?", model="demo")
    '4'
    """
    # Replaced for the block, instead of a flag that requests would look at: threads and event loops that were started
    # before the block are covered, and without a test there is nothing to set.
    with mock.patch.multiple(ApiProvider, stream=_refused, passes_assertions=True, create=True):
        yield


def _refused(self: ApiProvider, request: Request) -> NoReturn:
    raise AssertionError(
        f"a request to {self.name} was refused: real requests are switched off here; "
        "use a model of outrider.testing, such as ScriptedModel"
    )
