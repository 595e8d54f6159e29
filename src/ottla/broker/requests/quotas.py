"""The quotas of clients as they are now, by the metadata: none, most of the time."""

from ottla.broker.settings import Settings
from ottla.metadata.image import Image
from ottla.metadata.records import QuotaSet, Record
from ottla.security.quotas import Quotas, Windows


class ClientQuotas:
    """Counting begins with the first quota in the metadata, and ends with the last: then `now` is None."""

    def __init__(self, image: Image, settings: Settings) -> None:
        self._image, self._settings = image, settings
        self.now: Quotas | None = None
        self._update()
        image.watch(self._on_record)

    def _on_record(self, record: Record) -> None:
        if isinstance(record, QuotaSet):
            self._update()

    def _update(self) -> None:
        rules = self._image.security.quotas
        if not rules:
            self.now = None
        elif self.now is not None:
            self.now.on_changed()
        else:
            config = self._settings.now
            windows = Windows(
                config.quota_window_num,
                config.quota_window_size_seconds,
                config.controller_quota_window_num,
                config.controller_quota_window_size_seconds,
            )
            self.now = Quotas(rules, windows)
