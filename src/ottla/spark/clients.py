"""Clients that live as long as the Python process: Spark uses its workers again and again."""

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:  # Arrow is not for the process that only commits
    from ottla.client.columnar import ColumnarProducer, ColumnarReader
    from ottla.client.exactly_once.owner import TransactionOwner


class _Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=_Closable)
_MAX = 16
_kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()


def reader(settings: Mapping[str, Any]) -> "ColumnarReader":
    from ottla.client.columnar import ColumnarReader

    return kept(ColumnarReader, settings)


def producer(settings: Mapping[str, Any]) -> "ColumnarProducer":
    from ottla.client.columnar import ColumnarProducer

    return kept(ColumnarProducer, settings)


def transaction_owner(settings: Mapping[str, Any]) -> "TransactionOwner":
    from ottla.client.exactly_once.owner import TransactionOwner

    return kept(TransactionOwner, settings)


def kept(make: Callable[[Mapping[str, Any]], T], settings: Mapping[str, Any]) -> T:
    """One of these settings; the one that was unused for longest gives way. Not inherited by a fork."""
    key = (os.getpid(), make, *sorted((name, str(value)) for name, value in settings.items()))
    found: T | None = _kept.pop(key, None)
    if found is None:
        found = make(settings)
    _kept[key] = found
    while len(_kept) > _MAX:
        _, oldest = _kept.popitem(last=False)
        oldest.close()
    return found


def dropped(client: _Closable) -> None:
    """A client that failed in an unknown way is not used again."""
    for key, each in list(_kept.items()):
        if each is client:
            del _kept[key]
    client.close()
