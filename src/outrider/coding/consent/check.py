"""Check before every start that a program is still what the user agreed to."""

from __future__ import annotations

from outrider.coding.consent.coverage import TooMuchError
from outrider.coding.consent.item import ConsentItem, shown_path
from outrider.coding.consent.store import Consents, consent_folder
from outrider.text import clean

_MOST_NAMED = 3


class StartCheck:
    """Says why a program must not start now, or "". It reads every covered file again. Blocks."""

    def __init__(self, item: ConsentItem, consents: Consents) -> None:
        """`item` is what the user has agreed to, as it was when the session began."""
        self._item = item
        self._consents = consents

    def __call__(self) -> str:
        try:
            now = self._item.now()
            if now.digest == self._item.digest or self._consents.is_given(now):
                return ""
            changed = [name for name in now.parts if now.parts[name] != self._item.parts.get(name)]
            changed += [name for name in self._item.parts if name not in now.parts]
        except TooMuchError as error:
            return self._sentence(str(error))
        folder = consent_folder(self._item.file)
        names = ", ".join(shown_path(name, folder) for name in changed[:_MOST_NAMED])
        more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
        return self._sentence(f"{names}{more} changed since you agreed to it")

    def _sentence(self, why: str) -> str:
        title = clean(self._item.title)
        return f"The {title} is not started: {why}. To look at it and agree again: outrider trust"
