"""Brokers that talk to each other with Kerberos tickets: what one of them writes, all of them have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.client import Admin
from ottla.ensemble import why_not as why_no_zookeeper
from ottla.errors import SaslAuthenticationFailed
from tests.cluster.load import Load, create
from tests.cluster.processes import ProcessCluster
from tests.kerberos import kdc as kdc_module
from tests.kerberos.kdc import REALM, Kdc
from tests.oracle.ottla import Ottla
from tests.oracle.ports import free_ports

pytest.importorskip("gssapi", reason="the extra `kerberos` is not installed (make test-kerberos)")
pytestmark = [
    pytest.mark.skipif(kdc_module.why_not() is not None, reason=str(kdc_module.why_not())),
    pytest.mark.skipif(why_no_zookeeper() is not None, reason=str(why_no_zookeeper())),
]
PRINCIPAL = f"kafka/127.0.0.1@{REALM}"


def settings(keytab: str) -> dict[str, str]:
    jaas = f'Krb5LoginModule required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{PRINCIPAL}";'
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
        "listener.name.inside.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.inside.gssapi.sasl.jaas.config": jaas,
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        # Who is not known as the service could not follow a leader.
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:kafka;User:ANONYMOUS",
        "zookeeper.set.acl": "true",
        "ottla.zookeeper.auth": "digest:ottla:secret",
    }


def test_brokers_replicate_over_links_with_tickets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Kdc(tmp_path) as kdc:
        for name, value in kdc.environment.items():
            monkeypatch.setenv(name, value)
        keytab = kdc.keytab("kafka/127.0.0.1")
        with ProcessCluster(3, **settings(keytab)) as cluster:
            create(cluster.bootstrap)
            with Load(cluster.bootstrap) as load:
                load.wait_for(100)  # acks=all: the followers have them
                cluster.kill(leader := cluster.leader())
                load.wait_for(100)
                cluster.start(leader)
                cluster.until_in_sync()
            load.check()
            inside = f"127.0.0.1:{cluster._inside[1]}"
            refused = {
                "bootstrap.servers": inside,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
            }
            monkeypatch.setenv("KRB5CCNAME", f"FILE:{os.devnull}")
            with pytest.raises(SaslAuthenticationFailed), Admin(refused) as admin:
                admin.describe_cluster()


def test_a_client_waits_for_a_kdc_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker needs no KDC to accept tickets; the client asks it again until its time is over."""
    with Kdc(tmp_path) as kdc:
        for name, value in kdc.environment.items():
            monkeypatch.setenv(name, value)
        keytab, alice = kdc.keytab("kafka/127.0.0.1"), kdc.keytab("alice")
        port = free_ports(1)[0]
        jaas = f'Krb5LoginModule required useKeyTab=true keyTab="{keytab}" principal="{PRINCIPAL}";'
        listener = {
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
            "sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": jaas,
        }
        client = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.keytab": alice,
            "sasl.kerberos.principal": f"alice@{REALM}",
            "default.api.timeout.ms": 60_000,
        }
        kdc.stop()
        with Ottla(port, settings=listener):
            reasons: list[Exception] = []

            def on_retry(error: Exception) -> None:
                if not reasons:
                    kdc.start()
                reasons.append(error)

            with Admin(client, on_retry=on_retry) as admin:
                assert admin.describe_cluster().brokers
            assert "no Kerberos ticket for kafka/127.0.0.1" in str(reasons[0])
