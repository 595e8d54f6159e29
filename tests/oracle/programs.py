"""Our small Java programs (java/*.java), compiled once and run on Apache Kafka's class path."""

from __future__ import annotations

import hashlib
import os
import select
import shutil
import subprocess
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.oracle.cluster import SCRIPT, why_not

_CACHE = Path.home() / ".cache" / "ottla-oracle"
_SOURCES = Path(__file__).with_name("java")
# Without performance data: a JVM whose file for them another one looks at says so on standard output.
_JVM = ("-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Dlog4j2.level=OFF")


def why_not_java() -> str | None:
    """The reason why the programs cannot be compiled here, or None."""
    return why_not() or (None if _tool("javac") else "the Java programs need javac, which is not installed")


def command(name: str, *arguments: str, libraries: str | None = None) -> list[str]:
    """What starts a program; the process is the JVM itself. `libraries` are others than Apache Kafka's."""
    class_path = f"{_classes()}:{libraries or _class_path()}"
    return [_tool("java") or "java", *_JVM, "-cp", class_path, name, *arguments]


@cache
def newest_client() -> str:
    """The class path of the newest Java client (newest/pom.xml)."""
    return _libraries("newest")


def streams_command(*arguments: str) -> list[str]:
    """What starts streams/StreamsOracle.java: Kafka Streams in its TopologyTestDriver, without a broker."""
    libraries = _libraries("streams")
    classes = _compiled(Path(__file__).with_name("streams"), libraries)
    java = [_tool("java") or "java", *_JVM]
    return [*java, "-cp", f"{classes}:{libraries}", "StreamsOracle", *arguments]


def suite_command(folder: str, main: str, *arguments: str, properties: Mapping[str, str]) -> list[str]:
    """What starts a class of another project's test archives (the folder's pom.xml), with the folder's own classes
    in front of theirs and Apache Kafka's class path behind."""
    libraries = f"{_libraries(folder)}:{_class_path()}"
    classes = _compiled(Path(__file__).with_name(folder), libraries)
    java = [
        _tool("java") or "java",
        *_JVM,
        "-Xmx768M",
        *(f"-D{name}={value}" for name, value in properties.items()),
    ]
    return [*java, "-cp", f"{classes}:{libraries}", main, *arguments]


@cache
def _libraries(name: str) -> str:
    """The class path that a folder's pom.xml asks for; Maven copies it once."""
    pom = Path(__file__).with_name(name) / "pom.xml"
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    folder = _CACHE / f"{name}-{digest}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder.parent))
        copy: list[str | Path] = [
            "mvn",
            "-B",
            "-q",
            "-f",
            pom,
            "dependency:copy-dependencies",
            f"-DoutputDirectory={made}",
        ]
        subprocess.run(copy, check=True, capture_output=True)
        _take_place(made, folder)
    return f"{folder}/*"


def start(name: str, *arguments: str, **popen: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(command(name, *arguments), text=True, **popen)


def run_lines(tool: str, lines: Sequence[str], timeout_s: float = 300) -> list[str]:
    """What a tool of Apache Kafka prints for each line of arguments; one JVM for all of them."""
    mark = "-- that was all --"
    done = subprocess.run(
        command("Tools", tool, mark),
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    printed = done.stdout.split(mark + "\n")[:-1]
    assert len(printed) == len(lines), done.stdout + done.stderr
    return printed


class Printed(NamedTuple):
    """What became of a command: its exit status and standard output. What it says besides is not compared."""

    status: int
    out: str


class Commands:
    """Apache Kafka's command-line tools in one JVM, for those who run many; a context manager."""

    def __enter__(self) -> Commands:
        self._process = start("Commands", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, tool: str, words: Sequence[str], stdin: str = "", timeout_s: float = 180) -> Printed:
        """`tool` is the class."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        given = (b64encode(each.encode()).decode() for each in (tool, stdin, *words))
        process.stdin.write(" ".join(given) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], timeout_s)
        assert ready, f"{tool} {' '.join(words)}: nothing within {timeout_s} s"
        status, out, _ = process.stdout.readline().rstrip("\n").split(" ")
        return Printed(int(status), b64decode(out).decode())


@cache
def _class_path() -> str:
    return subprocess.run([SCRIPT, "classpath"], capture_output=True, text=True, check=True).stdout.strip()


@cache
def _classes() -> Path:
    return _compiled(_SOURCES, _class_path())


def _compiled(sources_folder: Path, class_path: str) -> Path:
    """Compiled into a folder named after the sources, so that it is done once and never stale."""
    sources = sorted(sources_folder.glob("*.java"))
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:16]
    folder = _CACHE / f"programs-{digest}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder.parent))
        subprocess.run([_tool("javac"), "-cp", class_path, "-d", made, *sources], check=True)
        _take_place(made, folder)
    return folder


def _take_place(made: Path, folder: Path) -> None:
    try:
        made.rename(folder)
    except OSError:  # another process was first
        shutil.rmtree(made, ignore_errors=True)


def _tool(name: str) -> str | None:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / name) if home else shutil.which(name)
