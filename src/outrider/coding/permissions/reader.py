"""Goes through the tree of a command line and gathers what it does."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from outrider.coding.permissions.feeding import is_fed
from outrider.coding.permissions.gaps import comment_doubts, gap_doubts, is_gap
from outrider.coding.permissions.heredocs import heredoc_doubts
from outrider.coding.permissions.nodes import DOUBTFUL, KEYWORDS, READING, STRUCTURE, TOKENS, WORDS, WRITING
from outrider.coding.permissions.script import Access, Assignment, Command, Redirection, Script
from outrider.coding.permissions.words import UNKNOWN, Word, read_word, variable_of

if TYPE_CHECKING:
    from tree_sitter import Node

DEEPEST = 50
"""Levels of nodes that are looked into."""


class Reader:
    """Walks through a tree once, and gathers."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._commands: list[Command] = []
        self._redirections: list[Redirection] = []
        self._assignments: list[Assignment] = []
        self._variables: set[str] = set()
        self._listed: list[Word] = []
        self._doubts: list[str] = []
        self._loops = 0
        self._depth = 0
        self._special: dict[str, Callable[[Node], object]] = {
            "command": lambda node: self._command(node, []),
            "redirected_statement": self._redirected,
            "file_redirect": lambda node: self._refuse_words(self._redirect(node)),
            "herestring_redirect": lambda node: self._children(node, known=frozenset({"<<<"})),
            "heredoc_redirect": lambda node: self._refuse_words(self._heredoc(node)),
            "variable_assignment": lambda node: self._assignments.append(self._assignment(node)),
            "variable_assignments": self._children,
            "for_statement": self._loop,
            "while_statement": self._loop,
            "comment": lambda node: self._doubts.extend(comment_doubts(node, self._source)),
        }

    def read(self, root: Node) -> Script:
        """The script that a tree stands for."""
        self._visit(root)
        if root.has_error:
            self._doubts.append("it cannot be parsed")
        if not is_gap(self._source[: root.start_byte] + b"\n" + self._source[root.end_byte :], lines=True):
            self._doubts.append("it cannot be read for certain")
        return Script(
            self._source.decode(),
            tuple(sorted(self._commands, key=lambda command: command.start)),
            tuple(self._redirections),
            tuple(self._assignments),
            frozenset(self._variables),
            tuple(self._listed),
            tuple(dict.fromkeys(self._doubts)),
        )

    def _visit(self, node: Node) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            self._doubts.append("it is nested too deeply")
        else:
            self._dispatch(node)
        self._depth -= 1

    def _dispatch(self, node: Node) -> None:
        special = self._special.get(node.type)
        if node.type == "test_command" and node.children[0].type == "[":
            self._test(node)
        elif special is not None:
            special(node)
        elif node.type in STRUCTURE:
            self._structure(node)
        elif node.type in WORDS:
            self._word(node)
        else:
            self._doubtful(node)

    def _structure(self, node: Node) -> None:
        first = node.children[0].type if node.children else ""
        if first == "((":
            self._doubts.append("it calculates")
        if first == "`" and b"\\" in self._source[node.start_byte : node.end_byte]:
            self._doubts.append("a command in backquotes has backslashes")
        self._children(node)

    def _children(self, node: Node, known: frozenset[str] = TOKENS) -> None:
        """Visit each child, having made sure that nothing stands between them."""
        self._check_gaps(node)
        for child in node.children:
            if child.is_named:
                self._visit(child)
            elif child.type not in known:
                self._doubts.append(f"`{child.type}` is not known here")

    def _check_gaps(self, node: Node) -> None:
        self._doubts.extend(gap_doubts(node, self._source))

    def _doubtful(self, node: Node) -> None:
        """Something that is not relied on, but in which commands may stand."""
        doubt = DOUBTFUL.get(node.type, f"{node.type.replace('_', ' ')} is not known here")
        if doubt:
            self._doubts.append(doubt if node.type not in DOUBTFUL else f"it has {doubt}")
        for child in node.children:
            if child.is_named:
                self._visit(child)

    def _loop(self, node: Node) -> None:
        self._loops += 1
        if node.children[0].type == "select":
            self._doubts.append("it has a menu")
        name = node.child_by_field_name("variable")
        if name is not None:
            nothing = Word("", None, UNKNOWN)
            self._assignments.append(Assignment(self._text(name), nothing))
        self._check_gaps(node)
        for child in node.children:
            if child.type in WORDS and name is not None:
                self._listed.append(self._word(child))
            elif child.is_named and child.type != "variable_name":
                self._visit(child)
        self._loops -= 1

    def _word(self, node: Node) -> Word:
        """A word; the commands and variables in it are gathered."""
        self._gather(node)
        return read_word(node, self._source, self._doubts)

    def _gather(self, node: Node) -> None:
        """The commands and the variables inside a word."""
        self._depth += 1
        if self._depth > DEEPEST:
            self._doubts.append("it is nested too deeply")
        elif node.type in ("command_substitution", "process_substitution"):
            self._structure(node)
        elif node.type in ("simple_expansion", "expansion"):
            self._variables.add(variable_of(self._text(node)))
            self._gather_children(node)
        else:
            self._gather_children(node)
        self._depth -= 1

    def _gather_children(self, node: Node) -> None:
        for child in node.children:
            if child.child_count:
                self._gather(child)

    def _command(self, node: Node, more: list[Node]) -> None:
        """A simple command. More words of it may stand behind its redirections."""
        self._check_gaps(node)
        words: list[Word] = []
        assignments: list[Assignment] = []
        for child in (*node.children, *more):
            match child.type:
                case "variable_assignment" if not words:
                    assignments.append(self._assignment(child))
                case "command_name":
                    words.append(self._word(child))
                case "file_redirect" | "herestring_redirect" | "heredoc_redirect":
                    self._visit(child)
                case kind if kind in WORDS and words:
                    words.append(self._word(child))
                case _:
                    self._doubtful(child)
        if words and words[0].source in KEYWORDS - {"time"}:
            self._doubts.append(f"`{words[0].source}` is not read here")
        self._add(node, words, assignments)

    def _add(self, node: Node, words: list[Word], assignments: list[Assignment]) -> None:
        if not words:
            self._doubts.append("it cannot be read for certain")
        self._commands.append(
            Command(tuple(words), self._text(node), node.start_byte, tuple(assignments), self._loops > 0, is_fed(node))
        )

    def _test(self, node: Node) -> None:
        """`[ … ]` is a command like others; how tree-sitter groups its arguments does not matter."""
        words: list[Word] = []
        waiting = [node]
        while waiting:
            each = waiting.pop()
            if each.type in ("test_command", "unary_expression", "binary_expression"):
                self._check_gaps(each)
                waiting.extend(reversed(each.children))
            elif each.child_count or each.is_named:
                words.append(self._word(each))
            else:
                words.append(self._operator(each))
        self._add(node, words, [])

    def _operator(self, node: Node) -> Word:
        """An operator of a test. `<` and `>` are redirections there, which tree-sitter does not know."""
        text = self._text(node)
        if text not in ("[", "]", "=", "==", "!=", "!"):
            self._doubts.append(f"`{text}` in a test cannot be read for certain")
        return Word(text, text, text)

    def _assignment(self, node: Node) -> Assignment:
        if any(before.end_byte != after.start_byte for before, after in itertools.pairwise(node.children)):
            self._doubts.append("an assignment cannot be read for certain")
        name, value = node.children[0], node.children[-1]
        if name.type != "variable_name" or not 2 <= node.child_count <= 3 or node.children[1].type not in ("=", "+="):
            self._doubtful(node)
            return Assignment("", Word("", None, UNKNOWN))
        if node.child_count == 2:
            return Assignment(self._text(name), Word("", "", ""))
        if value.type not in WORDS:
            self._doubtful(value)
            return Assignment(self._text(name), Word("", None, UNKNOWN))
        return Assignment(self._text(name), self._word(value))

    def _redirected(self, node: Node) -> None:
        """A statement and its redirections, behind which arguments of it may stand."""
        self._check_gaps(node)
        body = node.child_by_field_name("body")
        more: list[Node] = []
        for child in node.children:
            if child.type == "file_redirect":
                more.extend(self._redirect(child))
            elif child.type == "heredoc_redirect":
                more.extend(self._heredoc(child))
            elif child != body:
                self._visit(child)
        if body is not None and body.type == "command":
            self._command(body, more)
        else:
            self._refuse_words(more)
            if body is not None:
                self._visit(body)

    def _redirect(self, node: Node) -> list[Node]:
        """A file that is opened. Words behind it, which belong to the command, are given back."""
        self._check_gaps(node)
        children = [child for child in node.children if not self._is_descriptor(child)]
        operator, targets = children[0].type, children[1:]
        if not targets or operator not in READING | WRITING:
            self._doubts.append(f"the redirection {operator} is not known here")
        if not targets:
            return []
        target = self._word(targets[0])
        if operator not in (">&", "<&") or not re.fullmatch(r"[0-9]+-?|-", target.source):
            access: Access = "read" if operator in READING else "write"
            self._redirections.append(Redirection(access, target, node.start_byte))
        return targets[1:]

    def _heredoc(self, node: Node) -> list[Node]:
        """A here-document. Words behind it, which belong to the command, are given back."""
        more: list[Node] = []
        self._doubts.extend(heredoc_doubts(node, self._source))
        for child in node.children:
            if child.type == "heredoc_body":
                self._gather(child)
                for inner in child.children:
                    if inner.type != "heredoc_content":
                        read_word(inner, self._source, self._doubts)
            elif (
                child.is_named and child.type not in ("heredoc_start", "heredoc_end") and not self._is_descriptor(child)
            ):
                if child.type in WORDS:
                    more.append(child)
                elif child.type == "file_redirect":
                    more.extend(self._redirect(child))
                else:
                    self._visit(child)
        return more

    def _is_descriptor(self, node: Node) -> bool:
        """Whether it is the number before a redirection. tree-sitter takes any word for one that stands close to it."""
        if node.type == "file_descriptor" and not re.fullmatch("[0-9]+", self._text(node)):
            self._doubts.append("a redirection cannot be read for certain")
        return node.type == "file_descriptor"

    def _refuse_words(self, words: list[Node]) -> None:
        """Words behind a redirection where it is not clear to which command they belong."""
        if words:
            self._doubts.append("words stand behind a redirection")

    def _text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode(errors="replace")
