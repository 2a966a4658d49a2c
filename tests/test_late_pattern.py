"""A late pattern is compiled at its first use, and then behaves as a compiled one."""

from __future__ import annotations

import re

import pytest

from outrider.late_pattern import late_pattern


def test_it_has_the_methods_of_a_compiled_pattern() -> None:
    late, compiled = late_pattern(r"(?P<word>[a-z]+)-", re.IGNORECASE), re.compile(r"(?P<word>[a-z]+)-", re.IGNORECASE)
    for text in ("One-two-", "1-2", ""):
        for method in ("match", "search", "findall", "split"):
            for _ in range(2):
                assert str(getattr(late, method)(text)) == str(getattr(compiled, method)(text))
        assert late.sub(r"\1+", text) == compiled.sub(r"\1+", text)
    assert late.pattern == compiled.pattern
    assert late_pattern(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_nothing_is_compiled_before_its_first_use() -> None:
    wrong = late_pattern("(")
    with pytest.raises(re.error):
        wrong.search("")
