"""Durability on systems that differ, and what Windows is told."""

import errno
import os
import subprocess
import sys

import pytest

from ottla import durable
from ottla.cli.main import COMMANDS, UNIX_ONLY, main
from ottla.systems import refuse_windows
from ottla.testing import Broker


@pytest.fixture
def file(tmp_path):
    fd = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    yield fd
    os.close(fd)


@pytest.mark.parametrize("sync", [durable.sync_data, durable.sync_all])
def test_macos_waits_for_the_medium(sync, file, monkeypatch):
    asked = []
    monkeypatch.setattr("fcntl.fcntl", lambda fd, what: asked.append((fd, what)))
    monkeypatch.delattr(os, "fdatasync")  # it has none
    sync(file, platform="darwin")
    assert asked == [(file, 51)]


def test_where_macos_cannot_wait_for_the_medium_it_syncs_as_it_can(file, monkeypatch):
    def unsupported(fd, what):
        raise OSError(errno.ENOTSUP, "not here")

    synced = []
    monkeypatch.setattr("fcntl.fcntl", unsupported)
    monkeypatch.setattr(os, "fsync", synced.append)
    durable.sync_data(file, platform="darwin")
    assert synced == [file]


def test_a_failing_disk_is_an_error_on_macos_too(file, monkeypatch):
    def failed(fd, what):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr("fcntl.fcntl", failed)
    with pytest.raises(OSError, match="broken"):
        durable.sync_data(file, platform="darwin")


def test_space_is_allocated_without_posix_fallocate_and_keeps_what_is_there(file, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")
    os.pwrite(file, b"kept", 0)
    durable.allocate(file, 3_000_000)
    assert os.fstat(file).st_size == 3_000_000
    assert os.pread(file, 6, 0) == b"kept\0\0"


@pytest.mark.parametrize("command", UNIX_ONLY)
def test_on_windows_a_broker_says_that_it_does_not_run(command, monkeypatch, capsys):
    monkeypatch.setattr("ottla.cli.main.sys.platform", "win32")
    assert main([command]) == 1
    assert "Linux and macOS" in capsys.readouterr().err


def test_an_import_says_the_same():
    with pytest.raises(ImportError, match="WSL"):
        refuse_windows("win32")


# Modules and functions that Windows has not.
WITHOUT = """
import os, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios", "uvloop", "ottla.server"):
    sys.modules[name] = None
for name in ("fork", "fdatasync", "pwritev", "preadv", "geteuid", "posix_fallocate", "register_at_fork"):
    if hasattr(os, name):
        delattr(os, name)
"""
CLIENT = """
import ottla
from ottla.cli.main import main
with ottla.Admin(bootstrap_servers=sys.argv[1]) as admin:
    admin.create_topic("t", partitions=1)
with ottla.Producer(bootstrap_servers=sys.argv[1]) as producer:
    producer.send("t", "hello").result(30)
with ottla.Consumer(bootstrap_servers=sys.argv[1], group_id="g", auto_offset_reset="earliest") as consumer:
    consumer.subscribe("t")
    while not (records := consumer.poll(1)):
        pass
assert records[0].value == b"hello"
sys.exit(main(["topics", "list", "-b", sys.argv[1]]))
"""


def test_the_client_and_its_commands_need_nothing_that_windows_lacks():
    with Broker() as broker:
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT + CLIENT, broker.bootstrap],
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    assert "t" in done.stdout.split()


def test_the_list_names_commands_that_exist():
    assert set(UNIX_ONLY) <= set(COMMANDS)
