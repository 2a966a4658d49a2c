"""Schemas and values from outside that are made to crash, hang or fetch."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from outrider.errors import SchemaError
from outrider.tools.schema import Schema, inline_references


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    start = time.thread_time()  # work, not time: other programs may be busy
    yield
    assert time.thread_time() - start < seconds


def _nested(levels: int, leaf: Any) -> Any:
    for _ in range(levels):
        leaf = {"x": leaf}
    return leaf


@pytest.mark.parametrize("levels", [101, 5_000, 200_000])
def test_too_deep_a_schema(levels: int) -> None:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    with pytest.raises(SchemaError, match="levels deep"):
        Schema.of(schema)


def test_a_schema_that_contains_itself() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"self": schema}
    with pytest.raises(SchemaError, match="levels deep"):
        Schema.of(schema)


@pytest.mark.long
def test_a_schema_that_shares_parts_until_it_is_endless() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(40):
        schema = {"anyOf": [schema, schema]}
    with _within(5), pytest.raises(SchemaError, match="too large"):
        Schema.of(schema)


def test_too_large_a_schema() -> None:
    with pytest.raises(SchemaError, match="1,000,000"):
        Schema.of({"description": "x" * 1_000_001})


def test_a_schema_that_is_not_json() -> None:
    for raw in ({"default": object()}, {"description": "\ud800"}, {"default": {(1, 2): 3}}):
        with pytest.raises(SchemaError, match="not JSON"):
            Schema.of(raw)


@pytest.mark.parametrize("key", ["$ref", "$schema"])
def test_nothing_is_fetched(key: str) -> None:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with pytest.raises(SchemaError):
                Schema.of({key: f"http://127.0.0.1:{server.server_port}/schema.json"})
        finally:
            server.shutdown()
            thread.join()
    assert asked == []


def test_no_file_is_read(tmp_path: Any) -> None:
    (tmp_path / "s.json").write_text("{}")
    with pytest.raises(SchemaError):
        Schema.of({"$ref": (tmp_path / "s.json").as_uri()})


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "(?!x)(a*)*b", r"^(a+)+\1$"])
def test_a_catastrophic_pattern(pattern: str) -> None:
    schema = Schema.of({"type": "string", "pattern": pattern})
    with _within(5):
        assert schema.violations("a" * 50_000 + "!")


def test_a_pattern_that_looks_ahead_still_works() -> None:
    schema = Schema.of({"pattern": r"^(?!.*\.\.).*$"})
    assert [bool(schema.violations(path)) for path in ("a/b", "a/../b")] == [False, True]


@pytest.mark.parametrize("levels", [250, 30_000])
def test_too_deep_a_value(levels: int) -> None:
    schema = Schema.of({"properties": {"x": {"$ref": "#"}}, "required": ["y"]})
    assert "too deeply" in schema.violations(_nested(levels, {}))[0]
    assert "too deeply" in Schema.of(dict[str, Any]).violations(_nested(levels, [[]]))[0]


def test_a_value_as_deep_as_allowed_is_explained() -> None:
    schema = Schema.of({"properties": {"x": {"$ref": "#"}}, "type": "object"})
    [found] = schema.violations(_nested(190, 5))
    assert found.endswith('5 is not of type "object"')


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_alternatives_that_multiply(keyword: str) -> None:
    definitions: dict[str, Any] = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    definitions["d40"] = {"type": "string"}
    with _within(5), pytest.raises(SchemaError, match="multiply"):
        Schema.of({"$ref": "#/$defs/d0", "$defs": definitions})


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_alternatives_that_multiply_within_measure(keyword: str) -> None:
    definitions: dict[str, Any] = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(17)}
    definitions["d17"] = {"type": "string"}
    with _within(5):
        assert Schema.of({"$ref": "#/$defs/d0", "$defs": definitions}).violations(3)


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_recursive_alternatives_that_multiply_with_the_value(keyword: str) -> None:
    both = [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n", "title": "again"}]
    schema = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"x": {keyword: both}}}}}
    with _within(5):
        assert Schema.of(schema).violations(_nested(60, 3))


def test_references_that_multiply_when_written_out() -> None:
    definitions: dict[str, Any] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 3} for n in range(40)}
    definitions["d40"] = {"type": "string"}
    with _within(5):
        assert "$ref" not in str(inline_references({"$ref": "#/$defs/d0", "$defs": definitions}))


def test_a_long_chain_of_references() -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {"type": "array", "items": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(3_000)
    }
    definitions["d3000"] = {"type": "string"}
    raw = {"$ref": "#/$defs/d0", "$defs": definitions}
    with _within(5):
        assert Schema.of(raw).violations([[5]])
        assert "$ref" not in str(inline_references(raw))


def test_references_in_a_circle() -> None:
    raw = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert inline_references(raw) == {"type": "object"}
    Schema.of(raw).violations(1)


@pytest.mark.parametrize(
    "raw", [{"allOf": 5}, {"$ref": 5}, {"properties": []}, {"$defs": 3, "$ref": "#/$defs/a/b"}], ids=str
)
def test_references_in_nonsense(raw: dict[str, Any]) -> None:
    inline_references(raw)
    with pytest.raises(SchemaError):
        Schema.of(raw)
