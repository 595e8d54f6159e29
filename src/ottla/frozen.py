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
    frozen_class: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    all_fields = fields(frozen_class)
    frozen_class.__init__ = _init(frozen_class, all_fields)
    frozen_class.__eq__, frozen_class.__hash__ = _comparison(frozen_class, all_fields)
    frozen_class.__repr__, frozen_class.__setattr__, frozen_class.__delattr__ = (
        _repr,
        _refuse_set,
        _refuse_delete,
    )
    frozen_class.__getstate__, frozen_class.__setstate__ = _get_state, _set_state
    return frozen_class  # type: ignore[no-any-return]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen_with_dict(cls: type[T]) -> type[T]:
    """`@dataclass(frozen=True)` that is quick to make. It has no slots: subclasses may add attributes, and pickles are
    those of any object."""
    cls.__doc__ = cls.__doc__ or cls.__name__
    frozen_class: Any = dataclass(init=False, repr=False, eq=False)(cls)
    all_fields = fields(frozen_class)
    frozen_class.__init__ = _dict_init(frozen_class, all_fields)
    values = attrgetter(*(described.name for described in all_fields)) if all_fields else lambda _: ()

    def __eq__(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    frozen_class.__eq__, frozen_class.__hash__ = __eq__, lambda self: hash(values(self))
    frozen_class.__repr__, frozen_class.__setattr__, frozen_class.__delattr__ = (
        _repr,
        _refuse_set,
        _refuse_delete,
    )
    return frozen_class  # type: ignore[no-any-return]


def _dict_init(frozen_class: Any, all_fields: tuple[Field[Any], ...]) -> Callable[..., None]:
    last = "self.__post_init__()" if hasattr(frozen_class, "__post_init__") else "pass"
    return _compiled(frozen_class, all_fields, "of_self = self.__dict__", "of_self[{name!r}] = {value}", last)


def _init(frozen_class: Any, all_fields: tuple[Field[Any], ...]) -> Callable[..., None]:
    # The slot's own setter: `__setattr__` refuses.
    setters = {f"set_{field.name}": getattr(frozen_class, field.name).__set__ for field in all_fields}
    return _compiled(frozen_class, all_fields, "pass", "set_{name}(self, {value})", "pass", **setters)


def _compiled(
    frozen_class: type, all_fields: tuple[Field[Any], ...], first: str, line: str, last: str, **names: Any
) -> Callable[..., None]:
    """The only function that is compiled: a line for each field between a first and a last one."""
    names["MISSING"] = MISSING
    parameters, lines = ["self"], [first]
    for described in all_fields:
        name = value = parameter = described.name
        if described.default is not MISSING:
            names[f"default_{name}"] = described.default
            parameter = f"{name}=default_{name}"
        elif described.default_factory is not MISSING:
            names[f"make_{name}"] = described.default_factory
            parameter = f"{name}=MISSING"
            value = f"make_{name}() if {name} is MISSING else {name}"
        parameters.append(parameter)
        lines.append(line.format(name=name, value=value))
    source = f"def __init__({', '.join(parameters)}):\n " + "\n ".join([*lines, last])
    exec(source, names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = (
        f"{frozen_class.__qualname__}.__init__"  # for the message of a call with wrong arguments
    )
    return init


def _comparison(
    frozen_class: type, all_fields: tuple[Field[Any], ...]
) -> tuple[Callable[[Any, object], bool], Callable[[Any], int]]:
    """Of one class and equal in every field; the hash covers the same fields."""
    values = attrgetter(*(described.name for described in all_fields)) if all_fields else lambda _: ()

    def __eq__(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is frozen_class else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __eq__, __hash__


def _repr(self: Any) -> str:
    """A class with secrets names their fields in `HIDDEN`."""
    hidden = getattr(self, "HIDDEN", ())
    shown = ", ".join(
        f"{described.name}={'[hidden]' if described.name in hidden else repr(getattr(self, described.name))}"
        for described in fields(self)
    )
    return f"{type(self).__qualname__}({shown})"


def _refuse_set(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    """For copy and pickle, which would assign to the fields otherwise."""
    return [getattr(self, described.name) for described in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for described, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, described.name, value)
