"""Answers to questions from Python values: `Allow()`, `Deny("…")`, a choice, the values of a form, a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import AttachmentBlock
from outrider.errors import ValidationError
from outrider.log.questions import Answer, Body, ChoiceQuestion, PermissionQuestion, PlanQuestion, ResultQuestion
from outrider.struct_types import described
from outrider.text import clean_value
from outrider.tools.approval import Allow, Deny, denial_in
from outrider.tools.result import ToolResult, as_result


def answer_from(body: Body, given: Any, keep: Callable[[Attachment], AttachmentBlock]) -> Answer:
    """Return the answer that a value means for this question. `keep` stores files. Raises ValidationError."""
    if isinstance(given, Answer):
        return given
    if isinstance(body, ResultQuestion):
        if isinstance(given, Allow | Deny):
            problem = f"{body.title!r} waits for what the tool would return, which {type(given).__name__}() is not"
            raise ValidationError([problem])
        return Answer("result", content=_content(as_result(given), keep))
    if isinstance(body, PermissionQuestion):
        if not isinstance(given, Allow | Deny | bool):
            raise ValidationError([f"a call is answered with Allow() or Deny('…'), not {type(given).__name__}"])
        reason = given.reason if isinstance(given, Deny) else ""
        edited = given.input if isinstance(given, Allow) else None
        option = _first(body, allows=not denial_in(given))
        return Answer(option, reason, input=None if edited is None else _plain(edited))
    if given is None or given is False or isinstance(given, Deny):
        return Answer(_first(body, allows=False))
    if isinstance(body, PlanQuestion):
        return Answer(given if isinstance(given, str) else _first(body, allows=True))
    if isinstance(body, ChoiceQuestion) and isinstance(given, str | list | tuple) and len(body.questions) == 1:
        given = {body.questions[0].key: given}
    if not isinstance(given, Mapping):
        names = ", ".join(body.schema.get("properties", ())) if body.schema else ""
        raise ValidationError([f"answer with a mapping{f' of {names}' if names else ''}, not {type(given).__name__}"])
    return Answer(_first(body, allows=True), content=_plain(given))


def result_from(content: Mapping[str, Any] | None) -> tuple[ToolResult, list[AttachmentBlock]]:
    """Return the result that came from outside, with its files, which are stored."""
    found = dict(content or {"text": "The result that came is damaged.", "is_error": True})
    files = msgspec.convert(found.pop("files", ()), described(list[AttachmentBlock]))
    return ToolResult(**found), files


def _first(body: Body, *, allows: bool) -> str:
    """Return the first option that allows a call or denies it: `once` or `no`."""
    return next(each.id for each in body.options if each.allows is allows)


def _content(result: ToolResult, keep: Callable[[Attachment], AttachmentBlock]) -> dict[str, Any]:
    names = ("text", "is_error", "final", "is_json", "details")
    files = [msgspec.to_builtins(keep(each)) for each in result.attachments]
    return _plain({name: value for name in names if (value := getattr(result, name))} | {"text": result.text}) | (
        {"files": files} if files else {}
    )


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping as JSON has it. Raises ValidationError if it cannot."""
    try:
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(clean_value(dict(value))))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError([f"the answer is not JSON: {error}"]) from None
    return found
