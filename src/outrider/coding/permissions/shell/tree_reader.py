"""Build a script from the syntax tree of a command line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from outrider.coding.permissions.shell.heredocs import heredoc_doubts
from outrider.coding.permissions.shell.node_types import DOUBTFUL, KEYWORDS, READING, STRUCTURE, TOKENS, WORDS, WRITING
from outrider.coding.permissions.shell.script import Access, Assignment, Command, Redirection, Script
from outrider.coding.permissions.shell.stdin import has_input
from outrider.coding.permissions.shell.whitespace import comment_doubts, is_whitespace, whitespace_doubts
from outrider.coding.permissions.shell.words import UNKNOWN, Word, read_word, variable_of

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 50
"""The deepest level of nodes that is read."""


class TreeReader:
    """Walks a tree once and collects commands, redirections, variables and doubts."""

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
        self._handlers: dict[str, Callable[[Node], object]] = {
            "command": lambda node: self._command(node, []),
            "redirected_statement": self._redirected,
            "file_redirect": lambda node: self._doubt_words(self._redirect(node)),
            "herestring_redirect": lambda node: self._children(node, known=frozenset({"<<<"})),
            "heredoc_redirect": lambda node: self._doubt_words(self._heredoc(node)),
            "variable_assignment": lambda node: self._assignments.append(self._assignment(node)),
            "variable_assignments": self._children,
            "for_statement": self._loop,
            "while_statement": self._loop,
            "comment": lambda node: self._doubts.extend(comment_doubts(node, self._source)),
        }

    def read(self, root: Node) -> Script:
        """Return the script of a tree."""
        self._visit(root)
        if root.has_error:
            self._doubts.append("it cannot be parsed")
        if not is_whitespace(self._source[: root.start_byte] + b"\n" + self._source[root.end_byte :], lines=True):
            self._doubts.append("it is ambiguous")
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
        if self._depth > MAX_DEPTH:
            self._doubts.append("it is nested too deeply")
        else:
            self._dispatch(node)
        self._depth -= 1

    def _dispatch(self, node: Node) -> None:
        handler = self._handlers.get(node.type)
        if node.type == "test_command" and node.children[0].type == "[":
            self._test(node)
        elif handler is not None:
            handler(node)
        elif node.type in STRUCTURE:
            self._structure(node)
        elif node.type in WORDS:
            self._word(node)
        else:
            self._doubtful(node)

    def _structure(self, node: Node) -> None:
        first = node.children[0].type if node.children else ""
        if first == "((":
            self._doubts.append("it has arithmetic")
        if first == "`" and b"\\" in self._source[node.start_byte : node.end_byte]:
            self._doubts.append("a command in backquotes has backslashes")
        self._children(node)

    def _children(self, node: Node, known: frozenset[str] = TOKENS) -> None:
        """Visit each child. Only white space may be between them."""
        self._check_gaps(node)
        for child in node.children:
            if child.is_named:
                self._visit(child)
            elif child.type not in known:
                self._doubts.append(f"`{child.type}` is not supported here")

    def _check_gaps(self, node: Node) -> None:
        self._doubts.extend(whitespace_doubts(node, self._source))

    def _doubtful(self, node: Node) -> None:
        """Visit a node that is not trusted, because it may contain commands."""
        doubt = DOUBTFUL.get(node.type, f"{node.type.replace('_', ' ')} is not supported here")
        if doubt:
            self._doubts.append(doubt if node.type not in DOUBTFUL else f"it has {doubt}")
        for child in node.children:
            if child.is_named:
                self._visit(child)

    def _loop(self, node: Node) -> None:
        self._loops += 1
        if node.children[0].type == "select":
            self._doubts.append("it has a select loop")
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
        """Return a word, and collect the commands and variables in it."""
        self._gather(node)
        return read_word(node, self._source, self._doubts)

    def _gather(self, node: Node) -> None:
        """Collect the commands and variables inside a word."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
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
        """Read a simple command. It may have more words after its redirections."""
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
            self._doubts.append(f"`{words[0].source}` is not supported here")
        self._add(node, words, assignments)

    def _add(self, node: Node, words: list[Word], assignments: list[Assignment]) -> None:
        if not words:
            self._doubts.append("it is ambiguous")
        self._commands.append(
            Command(
                tuple(words), self._text(node), node.start_byte, tuple(assignments), self._loops > 0, has_input(node)
            )
        )

    def _test(self, node: Node) -> None:
        """Read `[ … ]` as a simple command, however tree-sitter groups its arguments."""
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
        """Read an operator of a test. `<` and `>` are redirections there, which tree-sitter does not know."""
        text = self._text(node)
        if text not in ("[", "]", "=", "==", "!=", "!"):
            self._doubts.append(f"`{text}` in a test is ambiguous")
        return Word(text, text, text)

    def _assignment(self, node: Node) -> Assignment:
        if any(before.end_byte != after.start_byte for before, after in itertools.pairwise(node.children)):
            self._doubts.append("an assignment is ambiguous")
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
        """Read a statement and its redirections, which may be followed by more arguments."""
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
            self._doubt_words(more)
            if body is not None:
                self._visit(body)

    def _redirect(self, node: Node) -> list[Node]:
        """Read a redirection. Return the words after it, which belong to the command."""
        self._check_gaps(node)
        children = [child for child in node.children if not self._is_descriptor(child)]
        operator, targets = children[0].type, children[1:]
        if not targets or operator not in READING | WRITING:
            self._doubts.append(f"the redirection {operator} is not supported here")
        if not targets:
            return []
        target = self._word(targets[0])
        if operator not in (">&", "<&") or not re.fullmatch(r"[0-9]+-?|-", target.source):
            access: Access = "read" if operator in READING else "write"
            self._redirections.append(Redirection(access, target, node.start_byte))
        return targets[1:]

    def _heredoc(self, node: Node) -> list[Node]:
        """Read a here-document. Return the words after it, which belong to the command."""
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
        """Return whether it is the number before a redirection. tree-sitter accepts any word that touches it."""
        if node.type == "file_descriptor" and not re.fullmatch("[0-9]+", self._text(node)):
            self._doubts.append("a redirection is ambiguous")
        return node.type == "file_descriptor"

    def _doubt_words(self, words: list[Node]) -> None:
        """Add a doubt if words after a redirection may belong to several commands."""
        if words:
            self._doubts.append("there are words after a redirection")

    def _text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode(errors="replace")
