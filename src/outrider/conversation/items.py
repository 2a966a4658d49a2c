"""Reading by item as well as by attribute: `turn["content"]`, `call.get("input")`, `dict(message)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar


class ByItem:
    """A mixin for structs whose fields and properties can also be read as the items of a dict.

    A tuple is read as a list. It is no Mapping: without a length it stays true even when it is empty, and without an
    iterator no function takes it for a list of its keys.
    """

    __slots__ = ()  # no cost for an instance
    __iter__: ClassVar[None] = None  # or Python would try the items 0, 1, 2, …

    if TYPE_CHECKING:
        __struct_fields__: ClassVar[tuple[str, ...]]

    def keys(self) -> tuple[str, ...]:
        """The names that `dict(…)` and `{**…}` take."""
        return self.__struct_fields__

    def get(self, name: str, default: Any = None) -> Any:
        """The item of this name, or the default if there is none."""
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
        value = getattr(self, name)
        return list(value) if isinstance(value, tuple) else value

    @classmethod
    def _properties(cls) -> list[str]:
        return [name for base in cls.__mro__ for name, member in vars(base).items() if isinstance(member, property)]
