"""The broker's settings as they are now: records of the metadata log change some of them while it runs."""

from collections.abc import Callable

from ottla.config.settings import Config
from ottla.metadata.image import BROKER_RESOURCE, Image
from ottla.metadata.leadership import MIN_ISR
from ottla.metadata.records import ConfigSet, Record


class Settings:
    """`now` is replaced as a whole. Parts that keep copies of settings pass `on_changed`."""

    def __init__(self, config: Config, image: Image, *on_changed: Callable[[Config], None]) -> None:
        self.now = config
        self._image, self._on_changed = image, on_changed
        self._update()
        image.watch(self._on_record)

    def _on_record(self, record: Record) -> None:
        if isinstance(record, ConfigSet) and record.resource_type == BROKER_RESOURCE:
            self._update()

    def _update(self) -> None:
        of_all = self._image.settings(BROKER_RESOURCE, "")
        own = dict(self._image.settings(BROKER_RESOURCE, str(self.now.node_id)))
        own.pop(MIN_ISR, None)  # the controller keeps the ELR by the minimum of all brokers
        self.now = self.now.with_dynamic(of_all, own)
        for on_changed in self._on_changed:
            on_changed(self.now)
