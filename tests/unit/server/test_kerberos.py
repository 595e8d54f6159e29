"""What a listener with GSSAPI must be told; logins themselves are in tests/kerberos, with a real KDC."""

import sys
from pathlib import Path

import pytest

from ottla.config.listeners import ListenerSettings
from ottla.errors import InvalidConfig
from ottla.server.kerberos import kerberos

SETTING = "listener.name.inside.gssapi.sasl.jaas.config"


def listener(jaas: str) -> ListenerSettings:
    return ListenerSettings("INSIDE", "SASL_PLAINTEXT", {SETTING: jaas} if jaas else {})


@pytest.mark.parametrize(
    ("jaas", "said"),
    [
        ("", "has no keys: set listener.name.inside.gssapi.sasl.jaas.config to `com.sun"),
        ("Krb5LoginModule required useTicketCache=true;", "has no keys"),
        ('Krb5LoginModule required keyTab="/k" principal="kafka@R";', "not of the form service/host@REALM"),
        ('Krb5LoginModule required keyTab="/k" principal="a@b@c";', "not of the form service/host@REALM"),
        (
            'Krb5LoginModule required keyTab="/nowhere" principal="kafka/h@R";',
            "keyTab=/nowhere is not a file",
        ),
    ],
)
def test_a_listener_without_usable_keys_is_refused_with_what_to_set(jaas: str, said: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        kerberos(listener(jaas))
    assert said in str(refused.value)


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)  # as if it were not installed
    keytab = tmp_path / "kafka.keytab"
    keytab.touch()
    with pytest.raises(InvalidConfig, match=r"pip install 'ottla\[kerberos\]'"):
        kerberos(listener(f'Krb5LoginModule required keyTab="{keytab}" principal="kafka/h@R";'))


def test_a_keytab_without_the_principals_keys_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("gssapi", reason="the extra `kerberos` is not installed (make test-kerberos)")
    keytab = tmp_path / "kafka.keytab"
    keytab.write_bytes(b"\x05\x02")  # the beginning of a keytab, and no keys
    with pytest.raises(InvalidConfig, match="has no usable keys of kafka/h@R"):
        kerberos(listener(f'Krb5LoginModule required keyTab="{keytab}" principal="kafka/h@R";'))
