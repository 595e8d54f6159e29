"""Settings under Kafka's names: what they are, where their values come from, what a log runs by."""

from ottla.config.log import LogConfig
from ottla.config.settings import Config

__all__ = ["Config", "LogConfig"]
