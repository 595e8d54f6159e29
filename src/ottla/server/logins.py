"""Who may read the pages: `Authorization: Basic` against a file of users. Hashing is done in a thread."""

import asyncio
import base64
import hashlib
from collections import OrderedDict
from collections.abc import Mapping

from ottla.security.passwords import NOBODY, is_password

KNOWN_MAX = 100


class Logins:
    """A header that was right once is right while the broker runs: Prometheus comes every few seconds."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._hashing = asyncio.Lock()  # guesses wait for each other, not the broker for them

    async def allow(self, authorization: str) -> bool:
        kind, _, text = authorization.partition(" ")
        if kind.lower() != "basic":
            return False
        digest = hashlib.sha256(text.encode()).digest()
        if digest in self._known:
            self._known.move_to_end(digest)
            return True
        try:
            name, _, password = base64.b64decode(text, validate=True).decode().partition(":")
        except ValueError:  # not ASCII, not Base64, or not UTF-8
            return False
        async with self._hashing:
            right = await asyncio.to_thread(is_password, password, self._users.get(name, NOBODY))
        if right:
            self._known[digest] = None
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        return right
