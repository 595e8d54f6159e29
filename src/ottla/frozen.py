"""`@frozen` is `@dataclass(frozen=True, slots=True)` that is quick to make.

The standard one compiles six functions for each class. A broker has seventy such classes, and that was a
quarter of the time it took to start. Here only `__init__` is compiled; the others are shared or closures.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Fields may have a default or a factory; whatever else `field` can do is not for these classes."""
    cls.__doc__ = cls.__doc__ or cls.__name__  # else dataclass() inspects the class to make one up
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    found = fields(made)
    made.__init__ = _init(made, found)
    made.__eq__, made.__hash__ = _comparison(made, found)
    made.__repr__, made.__setattr__, made.__delattr__ = _repr, _refuse_set, _refuse_delete
    made.__getstate__, made.__setstate__ = _get_state, _set_state
    return made  # type: ignore[no-any-return]


def _init(made: type, found: tuple[Field[Any], ...]) -> Callable[..., None]:
    names: dict[str, Any] = {"MISSING": MISSING}
    parameters, lines = ["self"], ["pass"]
    for each in found:
        name = value = parameter = each.name
        if each.default is not MISSING:
            names[f"default_{name}"] = each.default
            parameter = f"{name}=default_{name}"
        elif each.default_factory is not MISSING:
            names[f"make_{name}"] = each.default_factory
            parameter = f"{name}=MISSING"
            value = f"make_{name}() if {name} is MISSING else {name}"
        parameters.append(parameter)
        names[f"set_{name}"] = getattr(made, name).__set__  # the slot's own: `__setattr__` refuses
        lines.append(f"set_{name}(self, {value})")
    source = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines)
    exec(source, names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"  # for the message of a call with wrong arguments
    return init


def _comparison(
    made: type, found: tuple[Field[Any], ...]
) -> tuple[Callable[[Any, object], bool], Callable[[Any], int]]:
    """Of one class and equal in every field; the hash goes by the same fields."""
    values = attrgetter(*(each.name for each in found)) if found else lambda _: ()

    def __eq__(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is made else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __eq__, __hash__


def _repr(self: Any) -> str:
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self))
    return f"{type(self).__qualname__}({shown})"


def _refuse_set(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    """For copy and pickle, which would assign to the fields otherwise."""
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
