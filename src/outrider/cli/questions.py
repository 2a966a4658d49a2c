"""`outrider sessions questions`, `answer` and `continue`: sessions that wait for an answer, also without a process."""

from __future__ import annotations

import argparse
import getpass
import json
import time
from collections.abc import Callable
from typing import Any

import msgspec

from outrider.cli.prompt_output import question_text
from outrider.coding.toolbox import tools_of_programs
from outrider.errors import AnsweredError, LogError, ValidationError
from outrider.log.log import Log
from outrider.log.questions import Answer, ChoiceQuestion, PermissionQuestion, PlanQuestion, Question
from outrider.log.session_id import shown_id
from outrider.text.visible import revealed_line, safe_line

AddCommand = Callable[[str, Callable[[Log, argparse.Namespace], int | None], str], argparse.ArgumentParser]


def add_question_commands(command: AddCommand) -> None:
    listed = command("questions", _list, "list the questions that wait for an answer")
    listed.add_argument("--json", action="store_true", help="print one JSON array")
    answer = command("answer", _answer, "answer a question; the first answer counts")
    answer.add_argument("question", metavar="QUESTION", help="its id, or a unique prefix")
    answer.add_argument("value", metavar="ANSWER", nargs="*", help="yes, no, an option, a choice, or your own words")
    answer.add_argument("--words", default="", metavar="TEXT", help="what the model reads with a no")
    answer.add_argument("--json", metavar="OBJECT", help="the values of a form, or a result, as JSON")
    go_on = command("continue", _continue, "go on with a session whose question was answered")
    go_on.add_argument("id", metavar="ID", nargs="?")
    go_on.add_argument("--answered", action="store_true", help="go on with all sessions whose questions were answered")


def _list(log: Log, options: argparse.Namespace) -> None:
    questions = log.questions()
    if options.json:
        print(msgspec.json.encode(questions).decode())
        return
    if not questions:
        print("No question waits for an answer.")
    for each in questions:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.asked))
        print(f"{each.id[:8]}  {when}  session {shown_id(each.session)}: {question_text(each)}")
        print(f"          {' · '.join(_answers(each))}")


def _answers(question: Question) -> list[str]:
    body = question.body
    if isinstance(body, ChoiceQuestion) and len(body.questions) == 1:
        return [revealed_line(each.label) for each in body.questions[0].choices] or ["your own words"]
    if isinstance(body, PermissionQuestion | PlanQuestion):
        return [f"{each.id}: {revealed_line(each.label)}" for each in body.options]
    return [f"--json {revealed_line(json.dumps(body.schema))}" if body.schema else "yes", "no"]


def _answer(log: Log, options: argparse.Namespace) -> None:
    question = _found(log, options.question)
    words = " ".join(options.value)
    try:
        given = _given(question, words, options)
        log.answer(question.id, given, by=f"{getpass.getuser()}, in the terminal")
    except ValidationError as error:
        raise LogError(f"this cannot be the answer: {'; '.join(error.violations)}") from None
    print(f"Answered. To go on: outrider sessions continue {shown_id(question.session)}")


def _found(log: Log, prefix: str) -> Question:
    waiting = log.questions()
    found = [each for each in waiting if prefix and each.id.startswith(prefix)]
    if len(found) == 1:
        return found[0]
    if known := log.inbox.question(prefix):
        raise AnsweredError(f"the question {prefix[:8]} was answered before, by {known.answered_by}")
    why = "fits several questions" if found else "is no question that waits"
    raise LogError(f"{prefix[:40]!r} {why}; `outrider sessions questions` lists those that do")


def _given(question: Question, words: str, options: argparse.Namespace) -> Any:
    body = question.body
    if options.json is not None:
        try:
            return json.loads(options.json)
        except ValueError as error:
            raise LogError(f"--json is not JSON: {error}") from None
    offered = {each.id: each for each in body.options}
    word = words.casefold()
    if word in ("yes", "y", "allow", "no", "n", "deny", "decline"):
        allows = word in ("yes", "y", "allow")
        word = next((each.id for each in body.options if each.allows is allows), word)
    if word in offered and (not offered[word].allows or body.schema is None):
        return Answer(word, options.words)
    if body.schema is None:
        raise LogError(f"answer with one of: {', '.join(_answers(question))}")
    if not words:
        raise LogError(f"the answer is missing: {' · '.join(_answers(question))}")
    return words


def _continue(log: Log, options: argparse.Namespace) -> int:
    if bool(options.id) == bool(options.answered):
        raise LogError("name the session, or write --answered for all whose questions were answered")
    ids = [log.session(options.id).id] if options.id else log.inbox.answered_sessions()
    code = 0
    for each in ids:
        if strange := tools_of_programs(log.settings(each).tools or ()):
            print(f"{shown_id(each)} has tools of a program ({safe_line(', '.join(strange))}): go on with it there.")
            continue
        code = max(code, _run(each))
    if not ids:
        print("No session has an answer that it could go on with.")
    return code


def _run(session: str) -> int:
    from outrider.cli.prompt import prompt  # imports the coding agent

    return prompt(["-p", "--resume", session, "--ask-later"])
