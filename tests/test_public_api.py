"""What `import outrider` gives, what it does not cost, and that docs/api.md and help() say all of it."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

import outrider
from outrider import events

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "api.md").read_text()
MODULES = re.findall(r"^    outrider\.(\w+) ", outrider.__doc__ or "", re.M)
"""The public modules, as `help(outrider)` lists them."""
SMALL_MODULES = ("notebook", "stores", "telemetry", "testing")
OF_FRONT_ENDS = ("coding.Shell", "mcp.ServerPool")
"""Classes whose methods only our own front ends call: others make a Shell with an environment, and start no pool."""
NAMES = re.compile(r"`([^`]+)`")
WRONG = """
from outrider import Agent, Attachment, Limits, Message, Turn, ask, run, think
from outrider import thnik  # wrong

count: int = think("How many?")  # wrong
count = think("How many?", conversation=[]).usage.output_tokens
count = ask("How many?", output=int)
word: str = ask("How many?", output=int)  # wrong
word = run("Go.", limits=Limits(max_turns=1)).status
Agent(model="demo", tool=[print])  # wrong
Attachment("chart.png")  # wrong

turn = think("Go.", tools=[print])
count = turn.usage.output_tokens
word = turn  # wrong
word = think("Go.", tools=None, tool_results=None)
word = think("Go.", conversation=turn.conversation, tool_results=None).content
think("Go.", tool_results=[{"tool_use_id": "c1", "content": "x"}])  # wrong
think("Go.", tools=[print], tool_results=[{"tool_use_id": "c1", "content": "x"}])  # wrong


def go_on(conversation: list[Message] | None) -> str | Turn:
    return think("Go.", conversation=conversation)


word = turn["content"]
count = turn["tool_calls"][0]["arguments"]["count"]
word = turn.tool_calls[0].arguments  # wrong
word = turn.conversation[0]["role"] + turn.conversation[0].content[0].type
names = [*dict(turn), *{**turn}, *dict(turn.tool_calls[0]), *run("Go.").keys()]
word = names[0]
count = names[0]  # wrong
word = run("Go.").get("text", "")
for name in turn:  # wrong
    pass
"""


def sections(page: str) -> dict[str, str]:
    """The text below each heading, by the heading."""
    return {each.partition("\n")[0]: each for each in page.split("\n## ")[1:]}


def rows(section: str, heading: str) -> Iterator[list[str]]:
    """The cells of the tables whose first column has this heading."""
    for table in re.findall(r"^(?:\|.*\|\n)+", section, re.M):
        header, _, *lines = [line.strip("| ").split(" | ") for line in table.splitlines()]
        if header[0] == heading:
            yield from lines


def names_in(section: str) -> list[str]:
    return [name for cells in rows(section, "name") for name in NAMES.findall(cells[0])]


def code_in(section: str) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", section, re.M | re.S))


def used_in(code: str) -> set[str]:
    """The names that the code uses; to import one is not to use it."""
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}


def public_members(kind: type) -> Iterator[tuple[str, object]]:
    for name, member in vars(kind).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property | classmethod)):
            yield f"{kind.__name__}.{name}", member


# The names


def test_every_public_name_is_there_and_explains_itself() -> None:
    for name in outrider.__all__:
        value = getattr(outrider, name)
        assert name == "__version__" or value.__doc__, name
    assert dir(outrider) == sorted(outrider.__all__)


def test_every_method_of_a_public_class_explains_itself() -> None:
    kinds = [value for name in outrider.__all__ if isinstance(value := getattr(outrider, name), type)]
    assert not [name for kind in kinds for name, member in public_members(kind) if not member.__doc__]


def test_every_public_function_and_main_class_shows_an_example() -> None:
    for name in ("think", "run", "dumps", "loads", "tool", "Agent", "Session", "Message", "Attachment", "ToolResult"):
        assert ">>>" in (getattr(outrider, name).__doc__ or ""), name


def test_a_name_that_is_not_public_is_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'thnik'"):
        outrider.thnik  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"module 'outrider\.mcp' has no attribute 'StdoiServer'"):
        outrider.mcp.StdoiServer  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_the_names_that_type_checkers_see(module: str) -> None:
    found = getattr(outrider, module)
    for name in getattr(found, "__all__", ()):
        assert getattr(found, name) is not None
        assert definition(found.__name__, name) or name in ("Step", *found.__dict__), name


def test_every_name_has_one_home() -> None:
    homes = Counter(name for module in ("", *MODULES) for name in names_of(module) if module != "errors")
    assert [name for name, count in homes.items() if count > 1] == []


def names_of(module: str) -> set[str]:
    """The public names of a module; "" is the top."""
    if not module:
        return set(outrider.__all__)
    found = getattr(outrider, module)
    own = {name for name, kind in vars(found).items() if isinstance(kind, type) and kind.__module__ == found.__name__}
    return set(getattr(found, "__all__", own or bindings(found.__name__)))


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        (
            "from outrider import *",
            ["pydantic", "click", "rich", "aiohttp", "httptools", "httpx", "jsonschema_rs", "platformdirs"],
        ),
        ("from outrider import *", ["outrider.runtime.agent_loop", "outrider.runtime.opening"]),
        ("from outrider import *", ["outrider.runtime.step", "outrider.log.state", "outrider.testing"]),
        ("import outrider.cli; outrider.cli.main(['--version'])", ["asyncio", "msgspec"]),
        ("import outrider.cli; outrider.cli.main(['--help'])", ["asyncio", "msgspec"]),
    ],
)
def test_nothing_heavy_is_imported(code: str, unwanted: list[str]) -> None:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not set(unwanted) & set(loaded)


# The page


def test_the_page_has_every_public_name_once_and_no_other() -> None:
    named = [name for section in sections(PAGE).values() for name in names_in(section)]
    inner = [f"{module}.{name}" for module in MODULES if module not in ("events", "types") for name in names_of(module)]
    assert sorted(named) == sorted([*outrider.__all__, *inner])


def test_every_name_on_the_page_is_used_by_an_example_on_it() -> None:
    used = used_in(code_in(PAGE))
    assert [name for name in outrider.__all__ if name not in used] == []
    for module in ("batches", "coding", "mcp", "notebook", "serve", "stores", "telemetry", "testing"):
        assert names_of(module) & used, module


def test_the_table_of_events_has_all_of_them_with_their_fields() -> None:
    listed = {
        NAMES.findall(name)[0]: NAMES.findall(fields) for name, _, fields in rows(sections(PAGE)["Events"], "event")
    }
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    assert listed == {kind.__name__: list(kind.__struct_fields__) for kind in kinds}


# The help


def test_the_module_explains_all_names_in_the_groups_of_the_page() -> None:
    groups = dict(re.findall(r"^(\S.*)\n((?:    .+\n)+)", outrider.__doc__ or "", re.M))
    for title, section in sections(PAGE).items():
        names = [name for name in names_in(section) if "." not in name]
        missing = [name for name in names if not re.search(rf"\b{name}\b", groups.get(title, ""))]
        assert not missing, title


def test_the_example_of_the_module_is_true() -> None:
    outcome = doctest.testmod(outrider, extraglobs={"think": outrider.think})
    assert outcome.attempted
    assert not outcome.failed


def test_help_shows_every_name_with_what_it_says_of_itself() -> None:
    script = "import pydoc, outrider; print(pydoc.plain(pydoc.render_doc(outrider)))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "Scripts\n        think  " in shown[:1000], "what a newcomer sees first"
    for name in outrider.__all__:
        if name == "__version__":
            continue
        value = getattr(outrider, name)
        beginning = rf"^    class {name}\(" if isinstance(value, type) else rf"^    (async )?{name}\("
        if isinstance(value, outrider.types.ServerTool):
            assert re.search(rf"^    {name} = ", shown, re.M), name
            continue
        assert re.search(beginning, shown, re.M), name
        assert (inspect.getdoc(value) or "").partition("\n")[0] in shown, name


# The types


def test_every_type_in_a_public_signature_can_be_imported() -> None:
    """From `outrider` or from one of its public modules."""
    homes = {"": outrider.__name__} | {module: f"outrider.{module}" for module in MODULES}
    known = {definition(homes[module], name) for module in homes for name in names_of(module)}
    checked = [(name, getattr(outrider, name)) for name in outrider.__all__]
    checked += [
        (f"{module}.{name}", getattr(getattr(outrider, module), name))
        for module in ("batches", "coding", "events", "hooks", "mcp", "messages", *SMALL_MODULES)
        for name in names_of(module)
        if f"{module}.{name}" not in OF_FRONT_ENDS
    ]
    missing = {
        f"{where}: {found}"
        for public, value in checked
        for where, module, annotations in signatures(public, value)
        for name in names_of_types(annotations)
        if (found := definition(module, name)) and found not in known
    }
    assert not missing


@cache
def bindings(module: str) -> dict[str, str | None]:
    """The names that a module imports, also for type checkers alone, and where from; None for those that it defines."""
    tree = ast.parse(inspect.getsource(import_module(module)))
    found: dict[str, str | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = None
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = None
    return found


def definition(module: str, name: str) -> str:
    """The module and the name of a class or an alias of ours; "" for types of others and type variables."""
    while (home := bindings(module).get(name, "")) is not None:
        module, _, name = home.rpartition(".")
        if not module.startswith("outrider"):
            return ""
    return f"{module}.{name}"


def signatures(name: str, value: object) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Each signature of a public name, and the fields of a class: where it is, its module, its annotations."""
    if inspect.isfunction(value):
        yield name, value.__module__, value.__annotations__
    for kind in value.__mro__ if isinstance(value, type) else ():
        if not kind.__module__.startswith("outrider."):
            continue
        fields = inspect.get_annotations(kind)
        texts = {each: getattr(field, "__forward_arg__", field) for each, field in fields.items()}  # of a TypedDict
        yield name, kind.__module__, {each: text for each, text in texts.items() if not each.startswith("_")}
        for each, member in vars(kind).items():
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if inspect.isfunction(function) and (each == "__init__" or not each.startswith("_")):
                yield f"{name}.{each}", function.__module__, function.__annotations__


def names_of_types(annotations: Mapping[str, str]) -> Iterator[str]:
    for text in annotations.values():
        yield from (node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name))


def test_the_page_has_every_importable_type() -> None:
    listed = {name for cells in rows(sections(PAGE)["Types"], "types") for name in NAMES.findall(cells[0])}
    assert listed == {f"types.{name}" for name in names_of("types")}


@pytest.mark.long
def test_a_strict_type_checker_follows_the_page_and_finds_mistakes(tmp_path: Path) -> None:
    """As users have it: the installed package, whose `py.typed` says that its annotations count."""
    assert (files("outrider") / "py.typed").is_file()
    (tmp_path / "page.py").write_text(code_in(PAGE))
    (tmp_path / "wrong.py").write_text(WRONG)
    checking = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--cache-dir=/dev/null",
        "--config-file=",
        "page.py",
        "wrong.py",
    ]
    said = subprocess.run(checking, cwd=tmp_path, capture_output=True, text=True).stdout
    found = {(file, int(line)) for file, line in re.findall(r"^(\w+\.py):(\d+): error", said, re.M)}
    expected = {("wrong.py", at) for at, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# wrong")}
    assert found == expected, said
