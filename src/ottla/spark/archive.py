"""The class-data archive: Spark's classes as the JVM has loaded them once. Halves the start.

It lies in the user's cache, one for each build of Java and Spark, and is written aside by the first session when it
ends: until the rename, nobody sees it.
"""

import contextlib
import hashlib
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ottla.spark.java import Java

_STALE_S = 3600.0  # a JVM writes its archive within seconds


@dataclass(frozen=True, slots=True)
class Archive:
    path: Path
    aside: Path

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def java_options(self) -> list[str]:
        """To use the archive or, the first time, to make it."""
        if self.exists:
            return [
                f"-XX:SharedArchiveFile={self.path}",
                "-Xshare:auto",
                "-Xlog:cds=off",
                "-Xlog:cds+dynamic=off",
            ]
        return [f"-XX:ArchiveClassesAtExit={self.aside}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]

    def keep(self) -> None:
        """After the JVM has ended: what it wrote becomes the archive, unless somebody was quicker."""
        if self.aside.exists():
            self.aside.replace(self.path)

    def drop(self) -> None:
        """The JVM did not end well: half an archive is none."""
        self.aside.unlink(missing_ok=True)


def archive_for(java: Java, spark_home: Path, folder: Path | None = None) -> Archive | None:
    """None where the cache cannot be written: then Spark just starts as slowly as ever."""
    folder = folder or cache_folder()
    jars = sorted(f"{path.name} {path.stat().st_size}" for path in (spark_home / "jars").glob("*.jar"))
    identity = "\n".join([java.build(), str(java.home.resolve()), str(spark_home.resolve()), *jars])
    name = hashlib.sha256(identity.encode()).hexdigest()[:20]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        handle, aside = tempfile.mkstemp(prefix=f"{name}-", suffix=".part", dir=folder)
    except OSError:
        return None
    os.close(handle)
    Path(aside).unlink()  # the JVM wants to make it itself
    return Archive(folder / f"{name}.jsa", Path(aside))


def _sweep(folder: Path) -> None:
    """What sessions left that were killed: 150 MB each."""
    for path in folder.glob("*.part"):
        with contextlib.suppress(FileNotFoundError):  # another session sweeps, too
            if path.stat().st_mtime < time.time() - _STALE_S:
                path.unlink()


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ottla" / "spark"
