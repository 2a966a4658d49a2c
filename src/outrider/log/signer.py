"""Signs answers and messages with the user's key, and reads those that are signed."""

from __future__ import annotations

import os
from contextlib import suppress

import msgspec

from outrider.log.inbox_tables import QuestionRow
from outrider.log.key import LogKey
from outrider.log.questions import Answer, Question, Signal, body_in
from outrider.text import clean_value


class _Signed(msgspec.Struct, frozen=True):
    """An answer or a message as it is stored."""

    text: str
    """Its JSON."""
    signature: str


class Sent(msgspec.Struct, frozen=True):
    """A message with a random name, so that a copy of it is not taken as another one."""

    id: str
    signal: Signal


_decode_answer = msgspec.json.Decoder(Answer).decode
_decode_sent = msgspec.json.Decoder(Sent).decode
_decode_signed = msgspec.json.Decoder(_Signed).decode


class Signer:
    """Signs answers and messages, and reads those that are signed."""

    def __init__(self, key: LogKey) -> None:
        self._key = key

    def question(self, row: QuestionRow) -> Question | None:
        """Return the question of a row, with its answer if that is signed; None if this version cannot read it."""
        if (body := body_in(row.body)) is None:
            return None
        answer, _ = self.answer(row) or (None, "")
        return Question(row.id, row.session, row.call_id, row.asked, body, answer, row.answered_by if answer else "")

    def answer(self, row: QuestionRow) -> tuple[Answer, str] | None:
        """Return the answer of a row with its signature, if it is signed for this text of the question."""
        text = self._read(row.answer or "", "answer", row.id, row.body, row.answered_by)
        with suppress(msgspec.MsgspecError):
            return (_decode_answer(text), _decode_signed(row.answer or "").signature) if text else None
        return None

    def signature(self, id: str, body: str, answer: Answer, by: str) -> str:
        """Return the signature of an answer to a question."""
        return self._key.sign("answer", id, body, by, _text(answer))

    def proves(self, signature: str, id: str, body: str, answer: Answer, by: str) -> bool:
        """Return whether an answer is signed for this question."""
        return self._key.verifies(signature, "answer", id, body, by, _text(answer))

    def signed_answer(self, id: str, body: str, answer: Answer, by: str) -> str:
        """Return an answer as it is stored. `body` is the question as it was shown."""
        return self._written(answer, "answer", id, body, by)

    def signed_signal(self, session: str, fence: int, signal: Signal) -> str:
        """Return a message as it is stored, for one holder of a session."""
        return self._written(Sent(os.urandom(16).hex(), signal), "signal", session, fence)

    def sent(self, session: str, fence: int, stored: str) -> Sent | None:
        """Return a message that is signed for this holder."""
        text = self._read(stored, "signal", session, fence)
        with suppress(msgspec.MsgspecError):
            return _decode_sent(text) if text else None
        return None

    def _written(self, value: Answer | Sent, *about: str | int) -> str:
        text = _text(value)
        return msgspec.json.encode(_Signed(text, self._key.sign(*about, text))).decode()

    def _read(self, stored: str, *about: str | int) -> str:
        """Return the text if it is signed, or ""."""
        try:
            found = _decode_signed(stored)
        except msgspec.MsgspecError:
            return ""
        return found.text if self._key.verifies(found.signature, *about, found.text) else ""


def _text(value: Answer | Sent) -> str:
    return msgspec.json.encode(clean_value(msgspec.to_builtins(value))).decode()
