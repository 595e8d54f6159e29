import pytest

from ottla.client.errors import SettingError
from ottla.client.settings import (
    ConsumerSettings,
    KerberosLogin,
    ProducerSettings,
    Settings,
    read_properties,
)


def test_names_may_have_dots_or_underscores() -> None:
    settings = ProducerSettings.parse({"linger.ms": "7", "batch_size": 100})
    assert (settings.linger_ms, settings.batch_size) == (7, 100)


def test_an_unknown_name_is_refused_with_the_nearest_one_beside_it() -> None:
    with pytest.raises(SettingError, match=r"did you mean linger\.ms"):
        ProducerSettings.parse({"lingre.ms": 1})


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"linger.ms": "soon"}, "linger.ms"),
        ({"acks": "2"}, "acks"),
        ({"compression.type": "rar"}, "compression.type"),
        ({"bootstrap.servers": "nowhere"}, "host:port"),
        ({"bootstrap.servers": "host:²"}, "host:port"),
        ({"bootstrap.servers": ""}, "bootstrap.servers"),
        ({"acks": "1", "enable.idempotence": True}, "enable.idempotence"),
        ({"acks": "1", "transactional.id": "t"}, "transactional.id"),
        ({"batch.size": 0}, "batch.size"),
        ({"security.protocol": "TLS"}, "security.protocol"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(given: dict[str, object], names: str) -> None:
    with pytest.raises(SettingError, match=names):
        ProducerSettings.parse(given)


def test_idempotence_is_on_unless_another_setting_rules_it_out() -> None:
    assert ProducerSettings.parse({}).idempotent
    assert not ProducerSettings.parse({"acks": "1"}).idempotent
    assert not ProducerSettings.parse({"max.in.flight.requests.per.connection": 6}).idempotent


def test_several_addresses_and_ipv6_are_understood() -> None:
    settings = Settings.parse({"bootstrap.servers": "a:1, [::1]:2"})
    assert settings.bootstrap() == [("a", 1), ("::1", 2)]


def test_credentials_come_from_javas_login_line_too() -> None:
    line = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p=x";'
    assert Settings.parse({"sasl.jaas.config": line}).credentials() == ("u", "p=x")


def test_settings_files_have_comments_and_values_with_equal_signs() -> None:
    assert read_properties("# no\n\na.b = c=d\n!x\n") == {"a.b": "c=d"}


def test_settings_that_mean_nothing_here_do_not_stop_a_file_from_working() -> None:
    assert ConsumerSettings.parse({"enable.metrics.push": "false"}) == ConsumerSettings()


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        (Settings, "sasl.kerberos.kinit.cmd", "kinit -R"),
        (Settings, "interceptor.classes", "com.example.Interceptor"),
        (Settings, "retries", "3"),
        (Settings, "ssl.keystore.password", "secret"),
        (ProducerSettings, "transaction.two.phase.commit.enable", "true"),
        (ConsumerSettings, "share.acknowledgement.mode", "explicit"),
    ],
)
def test_a_setting_of_kafkas_that_cannot_work_is_refused_by_name(
    settings: type[Settings], name: str, value: str
) -> None:
    with pytest.raises(SettingError, match=f"{name}={value} cannot be: "):
        settings.parse({name: value})


def test_a_codec_has_its_own_level() -> None:
    settings = ProducerSettings.parse(
        {"compression.type": "zstd", "compression.zstd.level": "7", "compression.level": 1}
    )
    assert settings.level == 7
    assert ProducerSettings.parse({"compression.type": "gzip", "compression.level": 1}).level == 1


def test_lists_may_be_given_as_lists() -> None:
    assert Settings.parse({"bootstrap.servers": ["a:1", "b:2"]}).bootstrap() == [("a", 1), ("b", 2)]


def test_the_versions_of_tls_follow_both_settings() -> None:
    assert Settings.parse({}).tls_versions() == ["TLSv1.2", "TLSv1.3"]
    assert Settings.parse({"ssl.enabled.protocols": "TLSv1.3"}).tls_versions() == ["TLSv1.3", "TLSv1.3"]
    assert Settings.parse({"ssl.protocol": "TLSv1.2"}).tls_versions() == ["TLSv1.2", "TLSv1.2"]
    with pytest.raises(SettingError, match=r"ssl\.enabled\.protocols"):
        Settings.parse({"ssl.enabled.protocols": "SSLv3"})


def test_kerberos_is_told_under_librdkafkas_names_or_in_javas_login_line() -> None:
    kerberos = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}
    keys = {"sasl.kerberos.keytab": "/a.keytab", "sasl.kerberos.principal": "alice@CARE.TEST"}
    jaas = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
        'serviceName="kafka" keyTab="/a.keytab" principal="alice@CARE.TEST";'
    )
    expected = KerberosLogin("kafka", "alice@CARE.TEST", "/a.keytab")
    named = Settings.parse({**kerberos, "sasl.kerberos.service.name": "kafka", **keys})
    assert named.kerberos() == expected
    assert Settings.parse({**kerberos, "sasl.jaas.config": jaas}).kerberos() == expected
    with pytest.raises(SettingError, match=r"sasl\.kerberos\.service\.name"):
        Settings.parse({**kerberos, **keys}).kerberos()
    with pytest.raises(SettingError, match="needs a principal"):
        Settings.parse(
            {**kerberos, "sasl.kerberos.service.name": "kafka", "sasl.kerberos.keytab": "/a.keytab"}
        ).kerberos()
