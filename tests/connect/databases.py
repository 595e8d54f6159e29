"""Real database servers for tests: each a process with its own folder and port, gone with the test."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from tests.oracle.ports import free_ports

_READY_S = 90
_POSTGRES_FOLDERS = ":".join(
    str(each) for each in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
)
_PATH = f"{_POSTGRES_FOLDERS}:{os.environ['PATH']}:/usr/sbin:/sbin"
_POSTGRES_SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "50",
    "max_wal_senders": "50",
    "fsync": "off",  # a killed process loses nothing that it has written; a killed machine is not tested
    "full_page_writes": "off",
    "listen_addresses": "127.0.0.1",
    "max_connections": "60",
    "timezone": "UTC",
    "jit": "off",
    "autovacuum": "off",  # its transactions come at any time, and a snapshot waits for those that it cannot see
}


def why_no_postgres() -> str | None:
    """The reason why PostgreSQL cannot run here, or None."""
    for program in ("initdb", "postgres"):
        if _program(program) is None:
            return f"PostgreSQL needs {program}, which is not installed (tools/install postgres installs it)"
    if os.getuid() == 0 and _account("postgres") is None:
        return "PostgreSQL refuses to run as root, and there is no user postgres"
    return None


class Postgres:
    """A context manager. The port stays the same when the server is killed and started again."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.folder = _folder("ottla-postgres-", "postgres")
        self.port = free_ports(1)[0]
        self._settings = {**_POSTGRES_SETTINGS, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Postgres:
        try:
            _run_to_end(
                [
                    _program("initdb"),
                    "-D",
                    self.folder / "data",
                    "-A",
                    "trust",
                    "-U",
                    "postgres",
                    "-E",
                    "UTF8",
                    "--locale",
                    "C.UTF-8",
                    "--no-sync",
                ],
                self.folder,
                "postgres",
            )
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def dsn(self, database: str = "postgres") -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname={database}"

    def connect(self, database: str = "postgres", **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.dsn(database), autocommit=True, **options)

    def execute(self, statement: LiteralString, *parameters: Any, database: str = "postgres") -> list[Any]:
        with self.connect(database) as connection:
            cursor = connection.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def new_database(self, name: str) -> str:
        """Empty, also if there was one of this name; gives the name back."""
        with self.connect() as connection:
            connection.execute(
                psycopg.sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(
                    psycopg.sql.Identifier(name)
                )
            )
            connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))
        return name

    def start(self) -> None:
        deadline = time.monotonic() + _READY_S
        while True:
            self._process = self._started()
            if self._is_ready(deadline):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{_tail(self.folder)}")

    def kill(self) -> None:
        """SIGKILL: nothing is written down in an orderly way. Its children notice, and end."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _started(self) -> subprocess.Popen[bytes]:
        options = [word for item in self._settings.items() for word in ("-c", "=".join(item))]
        command = [
            _program("postgres"),
            "-D",
            self.folder / "data",
            "-p",
            str(self.port),
            "-k",
            self.folder,
            *options,
        ]
        return _started(command, self.folder, "postgres")

    def _is_ready(self, deadline: float) -> bool:
        """False if it ended: children of a killed server may hold its shared memory for a moment."""
        assert self._process is not None
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                self.connect(connect_timeout=5).close()
                return True
            except psycopg.OperationalError:
                time.sleep(0.05)
        return False


def _program(name: str) -> str | None:
    return shutil.which(name, path=_PATH)


def _account(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _folder(prefix: str, user: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    account = _account(user)
    if os.getuid() == 0 and account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
    return folder


def _as_user(user: str) -> dict[str, Any]:
    """Database servers refuse to run as root."""
    account = _account(user)
    if os.getuid() != 0 or account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _run_to_end(command: Sequence[Any], folder: Path, user: str) -> None:
    with (folder / "log").open("ab") as log:
        done = subprocess.run(command, stdout=log, stderr=log, cwd=folder, **_as_user(user))
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{_tail(folder)}")


def _started(command: Sequence[Any], folder: Path, user: str) -> subprocess.Popen[bytes]:
    """In a process group of its own: it is killed with its children, and not by Ctrl-C at the terminal."""
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
            **_as_user(user),
        )


def _tail(folder: Path, lines: int = 30) -> str:
    return "\n".join((folder / "log").read_text(errors="replace").splitlines()[-lines:])


def why_no_mariadb() -> str | None:
    """The reason why MariaDB cannot run here, or None."""
    for program in ("mariadbd", "mariadb-install-db"):
        if _program(program) is None:
            return f"MariaDB needs {program}, which is not installed (tools/install mariadbd installs it)"
    if os.getuid() == 0 and _account("mysql") is None:
        return "MariaDB refuses to run as root, and there is no user mysql"
    return None


class MariaDb:
    """A context manager; with a log of row changes."""

    def __init__(self) -> None:
        self.folder = _folder("ottla-mariadb-", "mysql")
        self.port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> MariaDb:
        try:
            data = f"--datadir={self.folder / 'data'}"
            names = ["--no-defaults", data, "--auth-root-authentication-method=normal", "--skip-test-db"]
            _run_to_end([_program("mariadb-install-db"), *names], self.folder, "mysql")
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, database: str | None = None) -> Any:
        import pymysql

        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            database=database,
            autocommit=True,
            connect_timeout=10,
        )

    def execute(self, statement: str, *parameters: Any, database: str | None = None) -> list[Any]:
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)
            return list(cursor.fetchall()) if cursor.description else []

    def new_database(self, name: str) -> str:
        self.execute(f"DROP DATABASE IF EXISTS `{name}`")
        self.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        return name

    def start(self) -> None:
        self._process = _started(
            [
                _program("mariadbd"), "--no-defaults", f"--datadir={self.folder / 'data'}", f"--port={self.port}",
                "--bind-address=127.0.0.1", f"--socket={self.folder / 'socket'}", f"--pid-file={self.folder / 'pid'}",
                "--server-id=1", "--log-bin=changes", "--binlog-format=ROW", "--binlog-row-image=FULL",
                "--binlog-row-metadata=FULL", "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=64M",
                "--innodb-log-file-size=64M",
            ],
            self.folder,
            "mysql",
        )  # fmt: skip
        import pymysql

        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                self.connect().close()
                return
            except pymysql.Error:
                time.sleep(0.05)
        raise RuntimeError(f"MariaDB did not start:\n{_tail(self.folder)}")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
