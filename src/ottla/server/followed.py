"""TLS contexts that follow their key stores: a file that changes counts for the connections after it."""

import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

from ottla.errors import InvalidConfig

logger = logging.getLogger("ottla.server")


class FollowedContext:
    """`make` reads the files; `of` says whose certificates they are."""

    def __init__(self, of: str, files: Sequence[Path], make: Callable[[], ssl.SSLContext]) -> None:
        self._of, self._files, self._make = of, files, make
        self._seen = self._looks()
        self.context = self._made()

    def current(self) -> ssl.SSLContext:
        """After a look at the files: for connections that are made rarely."""
        self.maybe_reload()
        return self.context

    def maybe_reload(self) -> None:
        """A file that cannot be used changes nothing. Nor does what fails otherwise (a full disk, for one): that is
        tried again at the next look. It must not end the timer that looks."""
        looks = self._looks()
        if looks == self._seen:
            return
        try:
            self.context = self._made()
        except InvalidConfig as error:
            logger.error("%s keeps its certificates: %s", self._of, error)
        except Exception as error:
            logger.error("%s keeps its certificates: %s", self._of, error)
            return
        else:
            logger.info("%s has new certificates", self._of)
        self._seen = looks

    def _made(self) -> ssl.SSLContext:
        try:
            return self._make()
        except InvalidConfig as error:
            raise InvalidConfig(f"{self._of}: {error.message}") from error

    def _looks(self) -> list[tuple[str, float, int]]:
        looks = []
        for path in self._files:
            try:
                status = path.stat()
            except OSError:
                continue  # it is being replaced
            looks.append((str(path), status.st_mtime, status.st_ino))
        return looks
