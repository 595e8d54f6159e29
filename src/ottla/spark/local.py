"""`session()`: a local Spark that starts quickly, fits topics, and leaves nothing behind when it stops."""

import atexit
import logging
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ottla.spark import driver
from ottla.spark.archive import Archive, archive_for
from ottla.spark.errors import SparkError
from ottla.spark.gateway import Gateway
from ottla.spark.java import find_java
from ottla.spark.tuning import settings as tuned

log = logging.getLogger(__name__)


def session(
    name: str = "ottla",
    *,
    cores: int | None = None,
    memory: str = "1g",
    settings: Mapping[str, str] | None = None,
    java_options: str = "",
    archive: bool = True,
) -> Any:
    """A `SparkSession` with the format `ottla`; on a cluster if `settings` say so with `spark.master`.

    Returns the running session if there is one. `stop()` ends the JVM too. What it sets is what
    `ottla.spark.settings()` gives: docs/spark.md has the reasons, and the log has the values at level INFO.
    """
    running = _running()
    if running is not None:
        return running
    settings_given = dict(settings or {})
    local = settings_given.get("spark.master", "local").startswith("local")
    wanted = {**tuned(cores, local=local), "spark.driver.memory": memory, **settings_given}
    # Workers must be the Python that has this package, not whichever comes first on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    java, spark_home = find_java(), _spark_home()
    classes = archive_for(java, spark_home) if archive else None
    options = [f"-Xmx{wanted['spark.driver.memory']}", "-XX:+UseSerialGC", *java_options.split()]
    gateway = Gateway(java, spark_home, [*options, *(classes.java_options() if classes else [])], wanted)
    life = _Life(gateway, classes)
    try:
        import pyspark  # while the JVM starts: neither is quick
        from pyspark.sql import SparkSession

        driver.install()
        gateway.wait_ready()
        log.info("Spark %s on Java from %s", pyspark.__version__, java.origin)
        for key, value in sorted(wanted.items()):
            log.info("set %s=%s", key, value)
        gateway.announce()
        builder = SparkSession.builder.appName(name)
        for key, value in wanted.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("WARN")
        log.info("Spark's web page: %s", spark.sparkContext.uiWebUrl or "off")
    except BaseException:
        life.end()
        raise
    finally:
        gateway.conceal()
    plain_stop = spark.stop

    def stop() -> None:
        plain_stop()
        life.end()

    spark.stop = stop  # type: ignore[method-assign]
    return spark


def _running() -> Any:
    """The session that is there already. To look for one must not cost the import of PySpark."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _spark_home() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SparkError("PySpark is not installed: pip install 'ottla[spark]'")
    return Path(spec.origin).parent


class _Life:
    """The JVM's end: once, by `stop` or with the interpreter."""

    def __init__(self, gateway: Gateway, archive: Archive | None) -> None:
        self._gateway = gateway
        self._archive = archive
        self._ended = False
        atexit.register(self.end)

    def end(self) -> None:
        if self._ended:
            return
        self._ended = True
        atexit.unregister(self.end)
        # The JVM first: a thread of PySpark's that reads from it holds what `_forget` would wait for.
        well = self._gateway.close()
        self._forget()
        if self._archive is not None:
            if well:
                self._archive.keep()
            else:
                self._archive.drop()

    def _forget(self) -> None:
        """PySpark keeps its connection in a class: without this the next session would talk to a dead JVM."""
        from pyspark import SparkContext

        gateway = SparkContext._gateway
        if gateway is not None and gateway.gateway_parameters.port == self._gateway.port:
            gateway.shutdown_callback_server(raise_exception=False)
            gateway.close()
            SparkContext._gateway = None
            SparkContext._jvm = None
