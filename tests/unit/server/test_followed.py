"""Contexts follow their files: what is new counts for the next connection, what is broken for none."""

import errno
import os
import ssl

import pytest

from ottla.errors import InvalidConfig
from ottla.security.certificates import Authority
from ottla.server.followed import FollowedContext
from ottla.server.tls import TlsSettings, client_context


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store.pem"
    authority = Authority()

    def write(text=None):
        identity = authority.issue("broker", "localhost")
        path.with_suffix(".new").write_text(text or identity.key + identity.certificate + authority.pem)
        os.replace(path.with_suffix(".new"), path)  # noqa: PTH105
        return path

    write()
    return write


def test_a_new_file_makes_a_new_context_and_a_broken_one_changes_nothing(store, caplog):
    path = str(store())
    stores = TlsSettings(keystore_location=path, truststore_location=path)
    followed = FollowedContext("the link", stores.files(), lambda: client_context(stores))
    first = followed.current()
    assert followed.current() is first
    store()
    second = followed.current()
    assert second is not first
    store("broken")
    assert followed.current() is second
    assert "the link keeps its certificates" in caplog.text
    store()
    assert followed.current() not in (first, second)


def test_what_fails_while_files_are_read_changes_nothing_and_is_tried_again(store, caplog):
    path = str(store())
    stores = TlsSettings(keystore_location=path, truststore_location=path)
    failures = []

    def make():
        if failures:
            raise failures.pop()
        return client_context(stores)

    followed = FollowedContext("the link", stores.files(), make)
    first = followed.current()
    store()
    failures += [OSError(errno.ENOSPC, "No space left on device")]
    assert followed.current() is first
    assert "the link keeps its certificates: [Errno 28] No space left on device" in caplog.text
    assert followed.current() is not first


def test_a_file_that_is_being_replaced_is_waited_for(store):
    path = store()
    stores = TlsSettings(keystore_location=str(path), truststore_location=str(path))
    followed = FollowedContext("the link", stores.files(), lambda: client_context(stores))
    first = followed.current()
    path.unlink()
    assert followed.current() is first
    store()
    assert isinstance(followed.current(), ssl.SSLContext)
    assert followed.current() is not first


def test_a_store_that_cannot_be_read_at_the_start_is_an_error_with_its_owner():
    stores = TlsSettings(truststore_location="/no/such/file.pem")
    with pytest.raises(InvalidConfig, match=r"zookeeper\.ssl: /no/such/file\.pem"):
        FollowedContext("zookeeper.ssl", stores.files(), lambda: client_context(stores))
