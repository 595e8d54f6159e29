"""Logins and TLS at the registry: as Confluent's client sends them, and ours."""

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from ottla.cli.main import main
from ottla.errors import OttlaError
from ottla.registry.http import Server
from ottla.registry.login import Login, basic, of_cluster, of_file
from ottla.registry.store import TopicStore
from ottla.security.passwords import hash_password
from ottla.serialization import RegistryClient, RegistryRefused
from ottla.testing import Broker
from ottla.testing.security import as_file, authority


@pytest.fixture(scope="module")
def secured():
    """A broker with users, and what its registry needs to log in there."""
    with Broker(security="SASL_SSL", users={"admin": "adm1n", "ann": "s3cret"}) as broker:
        yield broker


@pytest.fixture(scope="module")
def store(secured):
    store = TopicStore(secured.client_settings("admin"))
    store.start()
    yield store
    store.close()


@pytest.fixture
def serving(store):
    servers = []

    def serving(login=None, **tls):
        server = Server(store, port=0, login=login, **tls)
        server.start()
        servers.append(server)
        return server.address

    yield serving
    for server in servers:
        server.stop()


def test_names_and_passwords_of_a_file(serving, tmp_path):
    lines = f"# users\nann:{hash_password('s3cret', b'salt')}\nbob:{hash_password('b0b', b'salt')}:read\n"
    address = serving(Login(of_file(lines)))
    for user in (None, ("ann", "wrong"), ("nobody", "s3cret")):
        with pytest.raises(RegistryRefused) as refusal:
            RegistryClient(address, user=user).subjects()
        assert (refusal.value.status, refusal.value.code) == (401, 40101)
    ann = SchemaRegistryClient({"url": address, "basic.auth.user.info": "ann:s3cret"})
    schema_id = ann.register_schema("logins", Schema('"int"', "AVRO"))
    bob = SchemaRegistryClient({"url": address.replace("http://", "http://bob:b0b@")})
    assert bob.get_schema(schema_id).schema_str == '"int"'
    assert bob.lookup_schema("logins", Schema('"int"', "AVRO")).schema_id == schema_id
    assert bob.test_compatibility("logins", Schema('"long"', "AVRO"))
    with pytest.raises(SchemaRegistryError) as denial:
        bob.register_schema("logins", Schema('"long"', "AVRO"))
    assert denial.value.http_status_code == 403
    with pytest.raises(SchemaRegistryError):
        bob.delete_subject("logins")


def test_a_users_file_that_cannot_be_read_is_refused_with_its_line():
    with pytest.raises(ValueError, match="line 2"):
        of_file("# fine\nann:plain password\n")


@pytest.mark.parametrize("header", [None, "", "Bearer x", "Basic !!!", "Basic YQ==", "Basic /w=="])
def test_what_is_no_login_is_none(header):
    assert basic(header) is None


def test_users_of_the_cluster(serving, secured):
    address = serving(Login(of_cluster(secured.client_settings("admin"), "_schemas")))
    ann = RegistryClient.of({"schema.registry.url": address, "basic.auth.user.info": "ann:s3cret"})
    assert ann.register("of-the-cluster", '"int"').schema_id > 0
    with pytest.raises(RegistryRefused) as refusal:
        RegistryClient(address, user=("ann", "wrong")).subjects()
    assert refusal.value.status == 401


def test_tls_with_certificates_of_clients(serving, tmp_path):
    identity, own = authority().issue("localhost"), authority().issue("ann")
    ca = as_file(authority().pem)
    address = serving(
        ssl_certfile=as_file(identity.certificate, "registry.pem"),
        ssl_keyfile=as_file(identity.key, "registry.key"),
        ssl_ca_certs=ca,
        ssl_cert_reqs=2,
    ).replace("127.0.0.1", "localhost")
    settings = {
        "url": address,
        "ssl.ca.location": ca,
        "ssl.certificate.location": as_file(own.certificate, "ann.pem"),
        "ssl.key.location": as_file(own.key, "ann.key"),
    }
    confluent, ours = SchemaRegistryClient(settings), RegistryClient.of(settings)
    schema_id = confluent.register_schema("tls", Schema('"string"', "AVRO"))
    assert ours.schema(schema_id).schema == '"string"'
    with pytest.raises(OttlaError, match="no schema registry answers"):
        RegistryClient(address, ca=ca).subjects()
    with pytest.raises(OttlaError, match=r"ssl\.truststore\.location is not known"):
        RegistryClient.of({**settings, "ssl.truststore.location": "x"})


@pytest.mark.parametrize("options", [["--login", "basic"], ["--login", "kafka"], ["--ssl-key", "x"]])
def test_the_command_refuses_options_that_do_not_belong_together(options, capsys):
    assert main(["registry", "serve", *options]) == 1
    assert options[0] in capsys.readouterr().err
