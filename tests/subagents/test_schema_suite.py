"""The JSON-Schema-Test-Suite through our validation: schemas alone, and as output schemas of sub-agents.

The suite comes with the source archive of `jsonschema`, which pip fetches once; it is kept beside the interpreter.
Every group that is left out, or judged in another way, is named below with its reason: nothing else is passed over.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from outrider.errors import SchemaError, ValidationError
from outrider.runtime.structured_output import Report
from outrider.tools.schema import Schema

ARCHIVE = "jsonschema-4.26.0"
SHA256 = "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"
DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft4": "http://json-schema.org/draft-04/schema#",
}
"""Draft 3 and what is to come are not known to the validator."""

ANNOTATIONS = ("draft2020-12", "draft2019-09")
"""Drafts in which a format is a remark: `optional/format/` is left out there, and counts in the others."""

OTHER_DOCUMENTS = frozenset(
    {
        "dynamicRef.json: $ref and $dynamicAnchor are independent of order - $defs first",
        "dynamicRef.json: $ref and $dynamicAnchor are independent of order - $ref first",
        "dynamicRef.json: $ref to $dynamicRef finds detached $dynamicAnchor",
        "dynamicRef.json: strict-tree schema, guards against misspelled properties",
        "dynamicRef.json: tests for implementation dynamic anchor and reference link",
        "optional/cross-draft.json: refs to future drafts are processed as future drafts",
        "optional/cross-draft.json: refs to historic drafts are processed as historic drafts",
        "refRemote.json: $ref to $ref finds detached $anchor",
        "refRemote.json: $ref to $ref finds location-independent $id",
        "refRemote.json: Location-independent identifier in remote ref",
        "refRemote.json: anchor within remote ref",
        "refRemote.json: base URI change",
        "refRemote.json: base URI change - change folder",
        "refRemote.json: base URI change - change folder in subschema",
        "refRemote.json: fragment within remote ref",
        "refRemote.json: ref within remote ref",
        "refRemote.json: remote HTTP ref with different $id",
        "refRemote.json: remote HTTP ref with different URN $id",
        "refRemote.json: remote HTTP ref with nested absolute ref",
        "refRemote.json: remote ref",
        "refRemote.json: remote ref with ref to definitions",
        "refRemote.json: remote ref with ref to defs",
        "refRemote.json: retrieved nested refs resolve relative to their URI not $id",
        "refRemote.json: root ref in remote ref",
    }
)
"""They refer to schemas elsewhere, which are not fetched: refused."""

OTHER_META_SCHEMAS = frozenset(
    {
        "optional/format-assertion.json: schema that uses custom metaschema with format-assertion: false",
        "optional/format-assertion.json: schema that uses custom metaschema with format-assertion: true",
        "vocabulary.json: ignore unrecognized optional vocabulary",
        "vocabulary.json: schema that uses custom metaschema with with no validation vocabulary",
    }
)
"""Their `$schema` is a document elsewhere: refused."""

NOT_MOVED = frozenset(
    {
        "anchor.json: Location-independent identifier with base URI change in subschema",
        "recursiveRef.json: dynamic $recursiveRef destination (not predictable at schema compile time)",
        "ref.json: $ref prevents a sibling id from changing the base uri",
        "ref.json: Location-independent identifier with base URI change in subschema",
        "ref.json: id with file URI still resolves pointers - *nix",
        "ref.json: id with file URI still resolves pointers - windows",
        "ref.json: ref with absolute-path-reference",
    }
)
"""No objects, so that they would have to be wrapped, with names of their own that lead nowhere then: refused there."""

TAKEN_FOR_OBJECTS = frozenset(
    {
        "recursiveRef.json: $recursiveRef without $recursiveAnchor works like $ref",
        "ref.json: root pointer ref",
        "ref.json: simple URN base URI with $ref via the URN",
    }
)
"""A root without a type that has `properties` is taken for an object in a report, and so is what refers to it."""

DYNAMIC_FROM_OUTSIDE = frozenset(
    {
        "recursiveRef.json: $recursiveRef with nesting",
        "unevaluatedItems.json: unevaluatedItems with $recursiveRef",
    }
)
"""Documents within the schema that refer to whatever is around them: wrapped, that is one level more."""


class Group(NamedTuple):
    """One schema, and data with the verdict that it should get."""

    key: str
    schema: Any
    cases: list[tuple[str, Any, bool]]


@pytest.fixture(scope="session")
def suite() -> Path:
    """The folder with the tests of each draft."""
    kept = Path(sys.prefix) / "schema-suite" / f"{ARCHIVE}.tar.gz"
    if not kept.is_file() or hashlib.sha256(kept.read_bytes()).hexdigest() != SHA256:
        _fetch(kept)
    folder = kept.parent / ARCHIVE
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=kept.parent) as scratch, tarfile.open(kept) as archive:
            wanted = [each for each in archive if each.name.startswith(f"{ARCHIVE}/json/tests/") and each.isfile()]
            archive.extractall(scratch, wanted, filter="data")
            _put(Path(scratch) / ARCHIVE, folder)
    return folder / "json" / "tests"


def _fetch(kept: Path) -> None:
    """With pip, which asks the registry that is set up here; another test may do the same at this moment."""
    if importlib.util.find_spec("pip"):
        pip = [sys.executable, "-m", "pip"]
    elif uv := shutil.which("uv"):
        pip = [uv, "tool", "run", "pip"]
    else:
        pytest.skip(f"the schema suite is not here, and there is no pip to fetch {ARCHIVE} with")
    kept.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
        wanted = ARCHIVE.replace("-", "==")
        options = ["--quiet", "--no-deps", "--no-binary", "jsonschema", "--dest", scratch]
        fetching = subprocess.run([*pip, "download", *options, wanted], capture_output=True, text=True, timeout=100)
        found = Path(scratch) / kept.name
        if not found.is_file():
            said = fetching.stderr.strip().splitlines() or [f"pip ended with {fetching.returncode}"]
            pytest.skip(f"the schema suite is not here, and {wanted} cannot be fetched: {said[-1]}")
        assert hashlib.sha256(found.read_bytes()).hexdigest() == SHA256, f"{wanted} is another one than it was"
        _put(found, kept)


def _put(source: Path, target: Path) -> None:
    try:
        os.replace(source, target)
    except OSError:  # a folder that somebody else has put there meanwhile
        assert target.is_dir()


@cache
def groups(suite: Path, draft: str) -> list[Group]:
    return list(_read(suite / draft, draft))


def _read(folder: Path, draft: str) -> Iterator[Group]:
    for file in sorted(folder.rglob("*.json")):
        name = file.relative_to(folder).as_posix()
        if name.startswith("optional/format/") and draft in ANNOTATIONS:
            continue
        for group in json.loads(file.read_text(encoding="utf-8")):
            schema = group["schema"]
            if isinstance(schema, dict):
                schema = {"$schema": DRAFTS[draft], **schema}
            cases = [(case["description"], case["data"], case["valid"]) for case in group["tests"]]
            yield Group(f"{name}: {group['description']}", schema, cases)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("draft", DRAFTS)
def test_a_schema_judges_as_the_suite_does(suite: Path, draft: str) -> None:
    wrong, judged = [], 0
    for key, raw, cases in groups(suite, draft):
        if key in OTHER_DOCUMENTS | OTHER_META_SCHEMAS:
            with pytest.raises(SchemaError, match="cannot be used"):
                Schema.of(raw)
            continue
        schema = Schema.of(raw)
        for description, data, valid in cases:
            judged += 1
            if (schema.violations(data) == []) is not valid:
                wrong.append(f"{key}: {description}")
    assert wrong == []
    assert judged > 600


@pytest.mark.sampled(2)
@pytest.mark.parametrize("draft", DRAFTS)
def test_a_report_is_judged_as_the_suite_does(suite: Path, draft: str) -> None:
    """Also where the data is no object and stands in one; where the schema means objects, what is none is no call."""
    wrong, wrapped, plain = [], 0, 0
    left_out = TAKEN_FOR_OBJECTS | DYNAMIC_FROM_OUTSIDE
    for key, raw, cases in groups(suite, draft):
        if raw is False or key in OTHER_DOCUMENTS | OTHER_META_SCHEMAS | NOT_MOVED:
            with pytest.raises(SchemaError):
                Report(raw)
            continue
        tool = Report(raw).tool
        is_wrapped = tool.parameters.get("required") == ["result"]
        for description, data, valid in cases:
            if is_wrapped or isinstance(data, dict):
                wrapped, plain = wrapped + is_wrapped, plain + (not is_wrapped)
                if _takes(tool, {"result": data} if is_wrapped else data) is not valid and key not in left_out:
                    wrong.append(f"{key}: {description}")
    assert wrong == []
    assert min(wrapped, plain) > 100


def _takes(tool: Any, arguments: dict[str, Any]) -> bool:
    try:
        tool.check(arguments)
    except ValidationError:
        return False
    return True


def test_what_is_left_out_is_in_the_suite(suite: Path) -> None:
    known = {group.key for draft in DRAFTS for group in groups(suite, draft)}
    named = OTHER_DOCUMENTS | OTHER_META_SCHEMAS | NOT_MOVED | TAKEN_FOR_OBJECTS | DYNAMIC_FROM_OUTSIDE
    assert named - known == set()


def test_a_recursive_reference_means_the_data_after_it_was_wrapped() -> None:
    """Not in the suite: there is nothing around its schemas."""
    schema = {"$schema": DRAFTS["draft2019-09"], "type": "array", "items": {"$recursiveRef": "#"}}
    tool = Report(schema).tool
    assert _takes(tool, {"result": [[], [[]]]})
    assert not _takes(tool, {"result": [{"result": []}]})
