"""Names of a package that are imported when they are first used, so that one does not load the rest."""

from importlib import import_module
from sys import modules

TYPE_CHECKING = False  # as in typing, whose import takes longer than all that the program needs to handle signals
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def lazy(package: str, exported: "Mapping[str, str]", own_modules: str = "") -> "Callable[[str], Any]":
    """Return the `__getattr__` of a package. The names that come from each module stand in one string."""
    module_of = {name: module for module, names in exported.items() for name in names.split()}

    def get(name: str) -> "Any":
        if name in own_modules.split():
            return import_module(f"{package}.{name}")
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module_of[name]), name)
        vars(modules[package])[name] = value
        return value

    return get
