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
_cached: OrderedDict[tuple[Any, ...], Any] = OrderedDict()


def reader(settings: Mapping[str, Any]) -> "ColumnarReader":
    from ottla.client.columnar import ColumnarReader

    return cached(ColumnarReader, settings)


def producer(settings: Mapping[str, Any]) -> "ColumnarProducer":
    from ottla.client.columnar import ColumnarProducer

    return cached(ColumnarProducer, settings)


def transaction_owner(settings: Mapping[str, Any]) -> "TransactionOwner":
    from ottla.client.exactly_once.owner import TransactionOwner

    return cached(TransactionOwner, settings)


def cached(make: Callable[[Mapping[str, Any]], T], settings: Mapping[str, Any]) -> T:
    """One of these settings; the one that was unused for longest gives way. Not inherited by a fork."""
    key = (os.getpid(), make, *sorted((name, str(value)) for name, value in settings.items()))
    client: T | None = _cached.pop(key, None)
    if client is None:
        client = make(settings)
    _cached[key] = client
    while len(_cached) > _MAX:
        _, oldest = _cached.popitem(last=False)
        oldest.close()
    return client


def dropped(client: _Closable) -> None:
    """A client that failed in an unknown way is not used again."""
    for key, cached_client in list(_cached.items()):
        if cached_client is client:
            del _cached[key]
    client.close()
