"""The quotas of clients as they are now, by the metadata: none, most of the time."""

from ottla.broker.settings import Settings
from ottla.metadata.image import Image
from ottla.metadata.records import QuotaSet, Record
from ottla.security.quotas import Quotas, Windows


class ClientQuotas:
    """Counting begins with the first quota in the metadata, and ends with the last: then `now` is None."""

    def __init__(self, image: Image, settings: Settings) -> None:
        self._image, self._settings = image, settings
        self._quotas: Quotas | None = None
        self._is_stale = True
        image.watch(self._on_record)

    @property
    def now(self) -> Quotas | None:
        if self._is_stale:
            self._update()
        return self._quotas

    def _on_record(self, record: Record) -> None:
        """Looked at when somebody asks: an update takes as long as there are quotas, and a snapshot has all of them."""
        if isinstance(record, QuotaSet):
            self._is_stale = True

    def _update(self) -> None:
        self._is_stale = False
        rules = self._image.security.quotas
        if not rules:
            self._quotas = None
        elif self._quotas is not None:
            self._quotas.on_changed()
        else:
            config = self._settings.now
            windows = Windows(
                config.quota_window_num,
                config.quota_window_size_seconds,
                config.controller_quota_window_num,
                config.controller_quota_window_size_seconds,
            )
            self._quotas = Quotas(rules, windows)
