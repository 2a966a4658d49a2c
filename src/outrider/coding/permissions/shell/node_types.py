"""The node types of tree-sitter-bash, and which of them are trusted."""

from __future__ import annotations

from outrider.coding.permissions.word_set import word_set

STRUCTURE = word_set(
    "program list pipeline subshell compound_statement negated_command redirected_statement do_group if_statement "
    "elif_clause else_clause while_statement for_statement command_substitution process_substitution"
)
"""Nodes that contain commands and do nothing themselves."""

MANY_LINES = (STRUCTURE | {"heredoc_redirect"}) - word_set("redirected_statement negated_command pipeline list")
"""Nodes whose parts may be on separate lines; elsewhere the end of a line ends the command."""

CLOSING = word_set("; ;; & && | |& || ) } ` ( > >> >| &> &>> >& < <& << <<- <<<") | {"\n"}
"""Operators that end the word before them."""

DOUBTFUL = {
    "case_statement": "a case statement",
    "case_item": "",
    "c_style_for_statement": "a loop that calculates",
    "function_definition": "a function, which may replace a command",
    "declaration_command": "a declaration of variables",
    "unset_command": "unset",
    "test_command": "a test in [[ ]]",
    "subscript": "an array",
    "array": "an array",
    "translated_string": "a translated text",
}
"""Nodes that are searched for commands, but never trusted."""

WORDS = word_set(
    "word number string raw_string ansi_c_string concatenation simple_expansion expansion command_substitution "
    "process_substitution arithmetic_expansion brace_expression"
)

TOKENS = word_set("; ;; & && | |& || ( ) { } $( ` <( >( ! if then elif else fi while until for in do done") | {"\n"}

KEYWORDS = word_set("coproc time select function then do done fi esac else elif in { } ! [[ ]]")
"""Keywords in the place of a command; `time` is unwrapped later."""

READING = frozenset({"<", "<&"})
WRITING = frozenset({">", ">>", ">|", "&>", "&>>", ">&"})
