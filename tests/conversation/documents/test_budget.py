"""Limits on what is read of a document: all of the amount may be spent, and no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outrider.conversation.documents import blocks
from outrider.conversation.documents.blocks import Budget, ExhaustedError

SPEND: dict[str, Callable[[Budget], None]] = {
    "BYTES": lambda it: it.spend_bytes(3),
    "ELEMENTS": lambda it: it.spend_element(),
    "CHARACTERS": lambda it: it.spend_characters(3),
}


@pytest.mark.parametrize("amount", SPEND)
def test_each_amount_has_an_end_of_its_own(amount: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, amount, 2 if amount == "ELEMENTS" else 6)
    left = Budget()
    for _ in range(2):
        SPEND[amount](left)
    with pytest.raises(ExhaustedError):
        SPEND[amount](left)
    for other in SPEND.keys() - {amount}:
        SPEND[other](left)
