"""Topics in and out of Spark, without jars: `format("ottla")`, and a tuned local session."""

from typing import TYPE_CHECKING

from ottla.lazy import names_of

if TYPE_CHECKING:
    from ottla.spark.format import register as register
    from ottla.spark.local import session as session
    from ottla.spark.plain import reason as reason
    from ottla.spark.progress import describe as describe
    from ottla.spark.progress import lag as lag
    from ottla.spark.reduced import register_reduced as register_reduced
    from ottla.spark.tuning import settings as settings
    from ottla.spark.updates import write_update as write_update

_HOMES = {
    "describe": "ottla.spark.progress",
    "lag": "ottla.spark.progress",
    "reason": "ottla.spark.plain",
    "register": "ottla.spark.format",
    "register_reduced": "ottla.spark.reduced",
    "session": "ottla.spark.local",
    "settings": "ottla.spark.tuning",
    "write_update": "ottla.spark.updates",
}

__all__ = ["describe", "lag", "reason", "register", "register_reduced", "session", "settings", "write_update"]

# Every Python process that Spark starts imports this package.
__getattr__ = names_of(__name__, _HOMES)
