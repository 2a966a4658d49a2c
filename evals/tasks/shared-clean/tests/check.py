"""Only app/text.py defines `clean`, all five modules import from it, and their functions return what they did.

Wrong: note_title returns small letters, because the copy of notes.py was not like the others (wrong-1); the modules
import `clean` from orders.py (wrong-2).
"""

import ast
import json
import subprocess
import sys
from pathlib import Path

MODULES = ("orders", "customers", "products", "notes", "tags")


def defines_clean(tree: ast.Module) -> bool:
    """Return whether a module has a function of that name, or a variable."""
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    return "clean" in functions | {target.id for target in targets if isinstance(target, ast.Name)}


def imports_text(tree: ast.Module) -> bool:
    """Return whether a module imports app.text, or a name from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(alias.name == "app.text" for alias in node.names):
            return True
        if isinstance(node, ast.ImportFrom):
            place = "." * node.level + (node.module or "")
            if place in ("app.text", ".text") or (place in ("app", ".") and any(a.name == "text" for a in node.names)):
                return True
    return False


def tree(name: str) -> ast.Module:
    return ast.parse(Path("app", f"{name}.py").read_text(encoding="utf-8"))


assert defines_clean(tree("text"))
for module in MODULES:
    assert not defines_clean(tree(module)), module
    assert imports_text(tree(module)), module
EXPECTED = [
    ["00042 fell & sons", "100000 ines duarte"],
    ["maja-lindqvist", True, False],
    ["shade,", "white"],
    ["Call the Plumber", "A" * 40, "Ask Ines, then Ben"],
    ["new", "sale ", "two words"],
]
CODE = r"""
import json, sys
sys.path.insert(0, ".")
from app.customers import customer_key, same_customer
from app.notes import note_title
from app.orders import order_label
from app.products import search_words
from app.tags import tag_list
print()
print(json.dumps([
    [order_label(42, "  Fell &\tSons; "), order_label(100000, "Ines DUARTE.,")],
    [customer_key(" Maja  Lindqvist,"), same_customer("BEN Okafor;", "ben\nokafor"), same_customer("Ann", "Anne")],
    search_words(" White\n Shade,  white; "),
    [note_title(" Call  the Plumber. ! Now"), note_title("A" * 50), note_title("Ask Ines, then Ben;! ")],
    tag_list("New.|| SALE ;|two  Words| , "),
]))
"""
ended = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", CODE], capture_output=True, timeout=10, check=True)
found = json.loads(ended.stdout.splitlines()[-1])
assert found == EXPECTED, found
