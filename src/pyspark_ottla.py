"""Spark registers the format `ottla` because it finds this module: any top-level `pyspark_*` is looked at."""

from ottla.spark.format import OttlaFormat as DefaultSource

__all__ = ["DefaultSource"]
