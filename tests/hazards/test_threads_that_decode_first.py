"""Several threads decode a type for the first time at the same moment: msgspec alone would crash the process."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import outrider

SOURCE = Path(outrider.__file__).parent
PLAIN = {"str", "int", "bool", "bytes", "float", "Any", "dict", "list", "tuple", "msgspec", "Raw", "kind"}
"""Names of types that need no description. `kind` is a date or a number, where a tool is given one as text."""
RACE = """
import sys, threading, types
import msgspec
from outrider.struct_types import described

sys.setswitchinterval(1e-6)
fields = lambda name, kind: "".join(f"    {name}{number}: '{kind}' = None\\n" for number in range(40))
source = "import msgspec\\nclass Inner(msgspec.Struct):\\n" + fields("a", "str | int | None")
source += "class Outer(msgspec.Struct):\\n" + fields("b", "dict[str, Inner] | None")
data = msgspec.json.encode({f"b{each}": {"c": {f"a{each}": 1 for each in range(40)}} for each in range(40)})
for number in range(60):
    module = sys.modules[f"m{number}"] = types.ModuleType(f"m{number}")
    exec(source, module.__dict__)
    together = threading.Barrier(6)

    def decode(outer):
        together.wait()
        msgspec.json.decode(data, type=described(outer))

    threads = [threading.Thread(target=decode, args=[module.Outer]) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
print("alive")
"""


def test_a_process_survives_threads_that_decode_a_type_first() -> None:
    ended = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, timeout=100)
    assert (ended.returncode, ended.stdout) == (0, "alive\n"), ended.stderr


def test_every_type_that_is_decoded_later_is_described_before() -> None:
    found = [f"{path.relative_to(SOURCE)}: {text}" for path in SOURCE.rglob("*.py") for text in undescribed(path)]
    assert not found, "wrap the type in described(…) of outrider.struct_types"


def undescribed(path: Path) -> Iterator[str]:
    """The types that functions of a file give to msgspec as they are. Types at its top are described by its import."""
    text = path.read_text()
    if path.name == "struct_types.py" or not re.search(
        r"msgspec\.(convert|\w+\.(decode|Decoder|schema|schema_components))\(", text
    ):
        return
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                wanted = decoded_type(node) if isinstance(node, ast.Call) else None
                names = {each.id for each in ast.walk(wanted) if isinstance(each, ast.Name)} if wanted else set()
                if wanted and "described" not in names and not names <= PLAIN:
                    yield ast.unparse(node)


def decoded_type(call: ast.Call) -> ast.expr | None:
    """The type that a call of msgspec decodes, or whose schema it makes."""
    function = ast.unparse(call.func)
    makers = (
        "msgspec.json.Decoder",
        "msgspec.msgpack.Decoder",
        "msgspec.json.schema",
        "msgspec.json.schema_components",
    )
    if function in makers:
        return call.args[0] if call.args else None
    if function == "msgspec.convert" and len(call.args) > 1:
        return call.args[1]
    if function in ("msgspec.convert", "msgspec.json.decode", "msgspec.msgpack.decode"):
        return next((each.value for each in call.keywords if each.arg == "type"), None)
    return None
