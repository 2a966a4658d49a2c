"""Path patterns: two languages with one translator, and no pattern that takes long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wcmatch import glob as wcmatch

from outrider.coding.snapshots.ignoring import IgnoreFile
from outrider.coding.toolbox.search.search_paths import matcher
from outrider.coding.wildcards import GLOB, to_regex
from tests.lengths import examples

PIECES = ["a", "b", ".", "/", "*", "**", "**/", "/**", "?", "[ab]", "[!a]"]
NAMES = st.text("ab.", min_size=1, max_size=3).filter(lambda name: name.strip("."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


def patterns(*more: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from([*PIECES, *more]), min_size=1, max_size=8).map("".join)


@settings(max_examples=examples(300))
@given(patterns("{a,b}", "{a*,/b}", "[[:alpha:]]", "\\a"), st.lists(PATHS, min_size=4, max_size=4))
def test_glob_means_what_it_means_to_another_library(pattern: str, paths: list[str]) -> None:
    if pattern.endswith("/") or "***" in pattern:  # Glob adds `**` to a folder; git and we take `***` for `**`
        return
    flags = wcmatch.GLOBSTAR | wcmatch.BRACE | wcmatch.DOTGLOB | wcmatch.CASE
    matches = matcher(pattern)
    for path in paths:
        assert matches(path) == wcmatch.globmatch(path, pattern, flags=flags), path


@settings(max_examples=examples(300))
@given(patterns(), st.lists(PATHS, min_size=4, max_size=4))
def test_rules_match_as_if_every_way_were_tried(pattern: str, paths: list[str]) -> None:
    meanings = {"**/": "(?:[^/]+/)*", "/**": "(?:/.*)?", "**": ".*", "?": "[^/]", "[!a]": "[^a/]", "[ab]": "[ab]"}
    tokens = re.findall(
        r"/\*\*\Z|\*\*/|\*\*(?!\*)|\*+|\?|\[!?\w+\]|.", f"{pattern}**" if pattern[-1] == "/" else pattern
    )
    plain = "".join(meanings.get(each, "[^/]*" if each[0] == "*" else re.escape(each)) for each in tokens)
    for path in paths:
        assert bool(re.fullmatch(to_regex(pattern), path)) == bool(re.fullmatch(plain, path)), path


@pytest.mark.parametrize(
    ("pattern", "path"),
    [("*a" * 60 + "b", "a" * 200), ("**/a/" * 60 + "b", "a/" * 100 + "c"), ("**/*a*a*a*a/" * 20 + "b", "aaaaaa/" * 60)],
)
def test_no_pattern_of_a_project_or_a_model_takes_long(pattern: str, path: str) -> None:
    name = path.rstrip("/").rpartition("/")[2]
    assert not matcher(pattern)(path)
    assert not IgnoreFile(pattern).decision(path, name, False)
    assert not re.fullmatch(to_regex(pattern), path)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("x/**", ["x/a", "x/a/b"], ["y/a", "xa"]),
        ("a/**/**/b", ["a/b", "a/x/y/b"], ["ab"]),
        ("[[:digit:]x].py", ["3.py", "x.py"], ["d.py", ":.py"]),
    ],
)
def test_patterns_of_glob(pattern: str, matching: list[str], others: list[str]) -> None:
    for path in matching:
        assert re.fullmatch(GLOB.to_regex(pattern), path), path
    for path in others:
        assert not re.fullmatch(GLOB.to_regex(pattern), path), path


def test_a_rule_about_everything_in_a_folder_is_about_the_folder_too() -> None:
    assert re.fullmatch(to_regex("x/**"), "x")
    assert not re.fullmatch(GLOB.to_regex("x/**"), "x")
