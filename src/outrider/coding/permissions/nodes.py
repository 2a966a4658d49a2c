"""The kinds of nodes that tree-sitter-bash makes, and which of them are relied on."""

from __future__ import annotations

from outrider.coding.permissions.naming import names

STRUCTURE = names(
    "program list pipeline subshell compound_statement negated_command redirected_statement do_group if_statement "
    "elif_clause else_clause while_statement for_statement command_substitution process_substitution"
)
"""Nodes that hold commands and do nothing by themselves."""

MANY_LINES = (STRUCTURE | {"heredoc_redirect"}) - names("redirected_statement negated_command pipeline list")
"""Nodes whose parts may stand on lines of their own; elsewhere the end of a line ends the command."""

CLOSING = names("; ;; & && | |& || ) } ` ( > >> >| &> &>> >& < <& << <<- <<<") | {"\n"}
"""Signs before which a word ends."""

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
"""Nodes that are looked into, but never relied on."""

WORDS = names(
    "word number string raw_string ansi_c_string concatenation simple_expansion expansion command_substitution "
    "process_substitution arithmetic_expansion brace_expression"
)

TOKENS = names("; ;; & && | |& || ( ) { } $( ` <( >( ! if then elif else fi while until for in do done") | {"\n"}

KEYWORDS = names("coproc time select function then do done fi esac else elif in { } ! [[ ]]")
"""Words that are no commands where a command may stand; `time` is looked through later."""

READING = frozenset({"<", "<&"})
WRITING = frozenset({">", ">>", ">|", "&>", "&>>", ">&"})
