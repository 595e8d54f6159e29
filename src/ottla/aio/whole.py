"""Work that is done to its end even if its caller is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def whole(work: Coroutine[Any, Any, T]) -> T:
    """Nothing is left half done."""
    return await asyncio.shield(asyncio.ensure_future(work))
