"""Access to attributes as items, which are plain data: `turn["conversation"]`, `call.get("input")`, `dict(message)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec


class ByItem:
    """A mixin for structs whose fields and properties can also be read as the items of a dict.

    An attribute is typed; the item with its name is plain data, for scripts and for JSON: lists and dicts, also inside
    of it. `json.dumps(dict(message))` works. It is not a Mapping: without `__len__` an instance is always true, and
    without `__iter__` no function mistakes it for a list of its keys.
    """

    __slots__ = ()  # adds no instance dict
    __iter__: ClassVar[None] = None  # otherwise Python would iterate over the items 0, 1, 2, …

    if TYPE_CHECKING:
        __struct_fields__: ClassVar[tuple[str, ...]]

    def keys(self) -> tuple[str, ...]:
        """Return the names that `dict(…)` and `{**…}` use."""
        return self.__struct_fields__

    def get(self, name: str, default: Any = None) -> Any:
        """Return the item with this name, or the default."""
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name: object) -> bool:
        return name in self.__struct_fields__ or name in self._properties()

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            known = ", ".join((*self.__struct_fields__, *self._properties()))
            raise KeyError(f"{type(self).__name__} has no item {name!r}; it has {known}")
        return plain(getattr(self, name))

    @classmethod
    def _properties(cls) -> list[str]:
        return [name for base in cls.__mro__ for name, member in vars(base).items() if isinstance(member, property)]


class PlainStruct(ByItem, msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Frozen, without defaults in JSON, and strict: decoding rejects unknown fields instead of dropping them.

    Plain data has no cycles, so the garbage collector skips it (`gc=False`).
    """


def plain(value: Any) -> Any:
    """Return a value with lists for tuples and dicts for what can be read by item."""
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return dict(value) if isinstance(value, ByItem) else value
