"""Our reading of SKILL.md files against `skills-ref`, the published reference of the Agent Skills specification."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its YAML library imports what Python deprecates
    from skills_ref.parser import read_properties
    from skills_ref.validator import validate

from outrider.errors import ConfigError
from outrider.skills.skill import read_fields, read_skill, violations
from tests.lengths import only_long
from tests.skills.samples import mutated

EXAMPLES = {
    "valid": "---\nname: my-skill\ndescription: A test skill\n---\n# My Skill\n",
    "upper case": "---\nname: MySkill\ndescription: A test skill\n---\nBody\n",
    "too long": f"---\nname: {'a' * 70}\ndescription: A test skill\n---\nBody\n",
    "leading hyphen": "---\nname: -my-skill\ndescription: A test skill\n---\nBody\n",
    "two hyphens": "---\nname: my--skill\ndescription: A test skill\n---\nBody\n",
    "underscore": "---\nname: my_skill\ndescription: A test skill\n---\nBody\n",
    "another folder": "---\nname: correct-name\ndescription: A test skill\n---\nBody\n",
    "unknown field": "---\nname: my-skill\ndescription: A test skill\nunknown_field: x\n---\nBody\n",
    "no name": "---\ndescription: A test skill\n---\nBody\n",
    "no description": "---\nname: my-skill\n---\nBody\n",
    "long description": f"---\nname: my-skill\ndescription: {'x' * 1100}\n---\nBody\n",
    "long compatibility": f"---\nname: my-skill\ndescription: A\ncompatibility: {'x' * 550}\n---\nBody\n",
    "no fields": "# No frontmatter here",
    "unclosed": "---\nname: my-skill\ndescription: A test skill\n",
    "broken YAML": "---\nname: [invalid\ndescription: broken\n---\nBody here\n",
    "a list": "---\n- just\n- a\n- list\n---\nBody\n",
    "metadata": "---\nname: my-skill\ndescription: A\nmetadata:\n  author: T\n  version: 1.0\n---\nBody\n",
    "tools": "---\nname: my-skill\ndescription: A\nallowed-tools: Bash(jq:*) Bash(git:*)\n---\nBody\n",
    "all fields": "---\nname: my-skill\ndescription: A\nlicense: MIT\ncompatibility: git\nallowed-tools: B\n"
    "metadata:\n  a: b\n---\nBody\n",
}


def is_valid(text: str) -> bool:
    try:
        return not list(violations(read_fields(text), "my-skill"))
    except ValueError:
        return False


def is_valid_to_them(folder: Path) -> bool:
    try:
        found: list[str] = validate(folder)
    except AttributeError:  # its YAML library fails to report a control character, such as ESC
        return False
    return found == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "my-skill"
    found.mkdir()
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_its_own_examples_are_judged_alike(name: str, folder: Path) -> None:
    (folder / "SKILL.md").write_text(EXAMPLES[name])
    assert is_valid(EXAMPLES[name]) == is_valid_to_them(folder)


def test_names_in_other_scripts_are_judged_alike(tmp_path: Path) -> None:
    for name in ("技能", "мой-навык", "навык", "Навык", "café"):
        each = tmp_path / name
        each.mkdir()
        text = f"---\nname: {name}\ndescription: A skill\n---\nBody\n"
        (each / "SKILL.md").write_text(text)
        assert (not list(violations(read_fields(text), name))) == is_valid_to_them(each), name


@pytest.mark.parametrize(("seed", "count"), [(24, 50), *only_long((25, 200))])
def test_mutated_files_are_judged_alike_and_read_alike(seed: int, count: int, folder: Path) -> None:
    judged = []
    for text in mutated(count, seed):
        (folder / "SKILL.md").write_text(text)
        theirs = is_valid_to_them(folder)
        assert is_valid(text) == theirs, text
        judged.append(theirs)
        if theirs:
            properties = read_properties(folder)
            found = read_skill(folder)
            assert (found.name, found.description) == (properties.name, " ".join(properties.description.split()))
            assert not found.remarks
    assert count / 4 < sum(judged) < count * 3 / 4  # both kinds are there


def test_a_file_with_a_small_fault_is_used_with_a_remark(folder: Path) -> None:
    (folder / "SKILL.md").write_text("---\nname: my-skill\ndescription: Use when: asked\nmodel: opus\n---\nBody\n")
    skill = read_skill(folder)
    assert (skill.name, skill.description, skill.text()) == ("my-skill", "Use when: asked", "Body")
    assert "colon" in skill.remarks[0]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("# No fields", "between two lines of ---"),
        ("---\nname: my-skill\n---\n", "description"),
        ("---\nname: my-skill\ndescription: &a [*a, *a]\n---\n", "anchors"),
        ("---\nname: my-skill\ndescription: \x1b[31mred\n---\n" + "x" * 300_000, "larger than 256 KB"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_a_sentence(text: str, part: str, folder: Path) -> None:
    (folder / "SKILL.md").write_text(text)
    with pytest.raises(ConfigError, match=part):
        read_skill(folder)
