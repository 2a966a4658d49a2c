"""Docstrings in three styles give the same parameters, and nothing else slips into them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.tools.schema.docstrings import parse

GOOGLE = """Copy a file.

    It keeps the mode.

    Args:
        source (str): Where it
            lies now.
        target: Where it goes: a path.
        **options (Callable[[int], str], optional): More.

    Returns:
        The number of bytes.

    Raises:
        OSError: when the disk is full
    """

NUMPY = """Copy a file.

    It keeps the mode.

    Parameters
    ----------
    source : str
        Where it
        lies now.
    target
        Where it goes: a path.
    **options : Callable[[int], str], optional
        More.

    Returns
    -------
    count : int
        The number of bytes.
    """

SPHINX = """Copy a file.

    It keeps the mode.

    :param str source: Where it
        lies now.
    :param target: Where it goes: a path.
    :type target: str
    :param options: More.
    :returns: The number
        of bytes.
    :raises OSError: when the disk is full
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_three_styles_say_the_same(text: str) -> None:
    found = parse(text)
    assert found.description == "Copy a file.\n\nIt keeps the mode."
    assert found.parameters == {
        "source": "Where it lies now.",
        "target": "Where it goes: a path.",
        "options": "More.",
    }


@pytest.mark.parametrize("text", [None, "", "  \n "])
def test_nothing_is_nothing(text: str | None) -> None:
    assert parse(text) == ("", {})


def test_attributes_of_a_class_count_as_parameters() -> None:
    assert parse("A point.\n\nAttributes:\n    x: Across.\n    y: Up.").parameters == {"x": "Across.", "y": "Up."}


def test_two_names_of_numpy_share_a_description() -> None:
    text = "Sum.\n\nParameters\n----------\na, b : int\n    A summand."
    assert parse(text).parameters == {"a": "A summand.", "b": "A summand."}


def test_prose_that_looks_like_a_heading_stays_prose() -> None:
    text = "Run it. Args:\n\nParameters: none to speak of.\n\nNote:\n    Slow."
    assert parse(text) == (text, {})


def test_prose_after_the_parameters_is_kept_apart_from_them() -> None:
    found = parse("Do.\n\nArgs:\n    x: One.\n\nAnd more prose.")
    assert found.parameters == {"x": "One."}
    assert found.description == "Do.\n\nAnd more prose."


def test_a_parameter_without_a_text_is_not_described() -> None:
    assert parse("Do.\n\nArgs:\n    x:\n    y: Two.").parameters == {"y": "Two."}


PIECES = st.sampled_from(
    ["Args:", "Returns:", "Parameters", "----", ":param x: y", ":param:", "::", "  x (", "    y: z", "", "\t", "* "]
)


@given(st.one_of(st.text(), st.lists(PIECES | st.text(max_size=8)).map("\n".join)))
def test_never_raises(text: str) -> None:
    found = parse(text)
    assert all(name and description for name, description in found.parameters.items())
