"""Spark's own Kafka connector: its jars, copied by Maven into the user's cache once."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from ottla.spark.archive import cache_folder

_POM = Path(__file__).with_name("pom.xml")


def why_not() -> str | None:
    return None if shutil.which("mvn") else "Spark's own connector needs Maven, which is not installed"


def jars() -> str:
    """Their paths as `spark.jars` wants them."""
    folder = cache_folder() / f"connector-{hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]}"
    if not folder.exists():
        aside = folder.with_suffix(".part")
        shutil.rmtree(aside, ignore_errors=True)
        command = ["mvn", "-q", "-f", str(_POM), "dependency:copy-dependencies", "-DexcludeTransitive=true"]
        subprocess.run([*command, f"-DoutputDirectory={aside}"], check=True, timeout=300)
        aside.rename(folder)
    return ",".join(map(str, sorted(folder.glob("*.jar"))))
