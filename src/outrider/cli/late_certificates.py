"""Parse the certificates of the system when a TLS connection begins, not when the HTTP library is imported.

`aiohttp.connector` makes two TLS contexts when it is imported, and each parses all certificates of the system. That is
a fifth of the CPU time until the first request of a process, which may go to a server without TLS. In a process of our
own that module gets contexts which wait: they verify as before, but parse the certificates for their first connection.
Every other module has the `ssl` of Python.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_CONNECTOR = "aiohttp.connector"


def defer_certificates() -> None:
    """Let the HTTP library parse certificates late, if it is not imported yet."""
    if _CONNECTOR not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds one module, as Python does, and has it loaded with waiting contexts."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _CONNECTOR:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:  # others load it as they do without us
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    """Runs a module whose `import ssl` gives it waiting contexts until the end of its own import."""

    def exec_module(self, module: ModuleType) -> None:
        import builtins

        from outrider.cli.waiting_context import ssl_that_waits

        waiting = ssl_that_waits()

        def import_module(
            name: str,
            globals: Mapping[str, object] | None = None,
            locals: Mapping[str, object] | None = None,
            fromlist: Sequence[str] = (),
            level: int = 0,
        ) -> Any:
            imported = __import__(name, globals, locals, fromlist, level)
            return waiting if name == "ssl" else imported

        own = {**vars(builtins), "__import__": import_module}
        vars(module)["__builtins__"] = own
        super().exec_module(module)
        # From here on it has what every module has: it asks whether a context is an instance of the usual class.
        own["__import__"] = __import__
        import ssl

        real = {id(waiting): ssl, id(waiting.SSLContext): ssl.SSLContext}
        vars(module).update({name: real[id(each)] for name, each in vars(module).items() if id(each) in real})
