"""Public keys of those who issue tokens: a JWKS from a file or an address, read again when a key is missing."""

import json
import logging
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from ottla.errors import InvalidConfig

logger = logging.getLogger("ottla.server")

FETCH_S = 10.0
FETCH_BYTES_MAX = 1 << 20
AGAIN_S = 10.0  # unknown key ids make us read again, at most so often
REFRESH_S = 3600.0


class KeySet:
    """Read in a thread: the event loop only looks at keys that have been read."""

    def __init__(self, location: str) -> None:
        try:
            import jwt  # noqa: F401
        except ImportError:
            raise InvalidConfig(
                "OAUTHBEARER needs the extra `security`: pip install 'ottla[security]'"
            ) from None
        if not location.startswith(("file:", "http:", "https:", "/")):
            raise InvalidConfig(
                f"sasl.oauthbearer.jwks.endpoint.url={location} is neither a file nor an address"
            )
        self._location = location
        self._keys: dict[str | None, Any] = {}
        self._read_at = -AGAIN_S
        self._reading = threading.Lock()
        self._read()

    def key(self, key_id: str | None) -> Any:
        """None if it is not known; then the set is being read again."""
        age_s = time.monotonic() - self._read_at
        known = self._keys.get(key_id)
        if age_s > REFRESH_S or (known is None and age_s > AGAIN_S):
            self._read_at = time.monotonic()
            threading.Thread(target=self._read, name="ottla-jwks", daemon=True).start()
        return known

    def _read(self) -> None:
        import jwt

        with self._reading:
            try:
                keys = jwt.PyJWKSet.from_dict(json.loads(self._load())).keys
            except Exception as error:  # whatever is there, or answers: the keys stay as they are
                logger.error("the keys of %s cannot be read: %s", self._location, error)
                return
            by_id: dict[str | None, Any] = {key.key_id: key.key for key in keys}
            if len(keys) == 1:
                by_id.setdefault(None, keys[0].key)
            self._keys = by_id
            self._read_at = time.monotonic()

    def _load(self) -> bytes:
        if self._location.startswith(("http:", "https:")):
            with urllib.request.urlopen(self._location, timeout=FETCH_S) as response:
                body: bytes = response.read(FETCH_BYTES_MAX)
                return body
        return Path(self._location.removeprefix("file://").removeprefix("file:")).read_bytes()
