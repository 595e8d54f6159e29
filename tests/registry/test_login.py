"""Logins and TLS at the registry: as Confluent's client sends them, and ours."""

import base64
import json
import socket
import time
from urllib.parse import urlsplit

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from ottla.cli.main import main
from ottla.errors import OttlaError
from ottla.registry.http import Server
from ottla.registry.login import Login, basic, of_cluster, of_file
from ottla.registry.rights import Wish, wish_of
from ottla.registry.store import TopicStore
from ottla.security.acls import Operation
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


@pytest.mark.parametrize(
    "header", [None, "", "Bearer x", "Basic !!!", "Basic YQ==", "Basic /w==", "Basic \xe9"]
)
def test_what_is_no_login_is_none(header):
    assert basic(header) is None


def test_users_of_the_cluster(serving, secured):
    address = serving(Login(of_cluster(secured.client_settings("admin"), "_schemas")))
    ann = RegistryClient.of({"schema.registry.url": address, "basic.auth.user.info": "ann:s3cret"})
    assert ann.register("of-the-cluster", '"int"').schema_id > 0
    with pytest.raises(RegistryRefused) as refusal:
        RegistryClient(address, user=("ann", "wrong")).subjects()
    assert refusal.value.status == 401


class Ruled:
    """Makes clients of the registry at this address."""

    def __init__(self, address):
        self.address = address

    def __call__(self, name, password):
        return RegistryClient(self.address, user=(name, password))


@pytest.fixture(scope="module")
def ruled():
    """A broker where only what is allowed may be done; its registry is the user admin, who may do everything."""
    users = {"admin": "adm1n", "ann": "a", "bob": "b", "eve": "e", "ops": "o"}
    with Broker(security="SASL_PLAINTEXT", users=users, authorizer=True) as broker:
        broker.create_topic("orders", 1)
        broker.create_topic("visits", 1)
        broker.allow("ann", "write", topic="orders")
        broker.allow("bob", "read", topic="ord", prefix=True)
        broker.allow("ops", "all", topic="_schemas")
        settings = broker.client_settings("admin")
        store = TopicStore(settings)
        store.start()
        server = Server(store, port=0, login=Login(of_cluster(settings, "_schemas")))
        server.start()
        yield Ruled(server.address)
        server.stop()
        store.close()


def denied(client, method, path, body=None):
    with pytest.raises(RegistryRefused) as refusal:
        client.ask(method, path, body)
    return (refusal.value.status, refusal.value.code) == (403, 40301)


def test_rights_to_a_topic_are_rights_to_its_subjects(ruled):
    ann, bob, eve, ops = (ruled(name, name[0]) for name in ("ann", "bob", "eve", "ops"))
    schema = {"schema": '"int"'}
    assert ann.ask("POST", "/subjects/orders-value/versions", schema)["id"] == 1
    assert ann.ask("POST", "/contexts/.c/subjects/orders-key/versions", schema)["id"] == 1
    assert denied(ann, "POST", "/subjects/visits-value/versions", schema)
    assert denied(ann, "DELETE", "/subjects/orders-value")  # that takes DELETE of the topic
    assert denied(ann, "PUT", "/config/orders-value", {"compatibility": "NONE"})  # ALTER_CONFIGS
    assert denied(ann, "PUT", "/config", {"compatibility": "NONE"})
    assert bob.ask("GET", "/subjects/orders-value/versions") == [1]
    assert bob.ask("GET", "/schemas/ids/1")["schema"] == '"int"'
    guid = bob.ask("GET", "/schemas/ids/1")["guid"]
    assert bob.ask("GET", f"/schemas/guids/{guid}")["id"] == 1
    assert bob.ask("POST", "/subjects/orders-value", schema)["version"] == 1
    assert bob.ask("POST", "/compatibility/subjects/orders-value/versions/latest", schema)["is_compatible"]
    assert denied(bob, "POST", "/subjects/orders-value/versions", schema)
    assert denied(bob, "GET", "/subjects")
    assert denied(bob, "GET", "/subjects/visits-value/versions")
    for path in ("/subjects/orders-value/versions", "/schemas/ids/1", "/schemas/ids/99", "/config", "/mode"):
        assert denied(eve, "GET", path)
    assert ops.ask("GET", "/subjects") == [":.c:orders-key", "orders-value"]
    assert ops.ask("POST", "/subjects/anything/versions", schema)["id"] == 1
    assert ops.ask("PUT", "/config/orders-value", {"compatibility": "NONE"}) == {"compatibility": "NONE"}
    # An alias gives no rights to what it stands for, and takes no rights to its own name.
    ops.ask("POST", "/subjects/visits-value/versions", schema)
    ops.ask("PUT", "/config/orders-alias", {"alias": "visits-value"})
    ops.ask("PUT", "/config/visits-alias", {"alias": "orders-value"})
    assert denied(bob, "GET", "/subjects/orders-alias/versions")
    assert bob.ask("GET", "/subjects/visits-alias/versions") == [1]


def test_an_id_of_ones_own_context_gives_no_rights_to_the_same_id_elsewhere(ruled):
    """Each context counts its ids from 1."""
    ann, ops = ruled("ann", "a"), ruled("ops", "o")
    hidden = {"schema": '{"type":"record","name":"Hidden","fields":[]}'}
    number = ops.ask("POST", "/subjects/visits-hidden/versions", hidden)["id"]
    own = [
        ann.ask(
            "POST",
            "/contexts/.own/subjects/orders-value/versions",
            {"schema": json.dumps({"type": "record", "name": "Own", "doc": str(count), "fields": []})},
        )["id"]
        for count in range(number + 1)
    ]
    assert number in own
    for suffix in ("", "/schema", "/subjects", "/versions"):
        path = f"/schemas/ids/{number}{suffix}"
        assert denied(ann, "GET", path)
        assert denied(ann, "GET", f"{path}?subject=visits-value")
        assert denied(ann, "GET", f"{path}?subject=")
        assert denied(ann, "GET", f"/contexts/./{path}")
        assert "Hidden" not in str(ann.ask("GET", f"{path}?subject=:.own:"))
        assert "Hidden" not in str(ann.ask("GET", f"/contexts/.own{path}"))
        assert "Hidden" not in str(ann.ask("GET", f"/schemas/ids/{number + 1}{suffix}"))  # only .own has it
    guid = ops.ask("GET", f"/schemas/ids/{number}")["guid"]
    assert denied(ann, "GET", f"/schemas/guids/{guid}")
    assert denied(ann, "GET", f"/schemas/ids/{'9' * 5000}")


def test_an_id_that_the_default_context_gets_while_a_request_is_sent_is_not_what_the_request_gets(ruled):
    """Rights are looked at before the body has come, which may take its time."""
    ann, ops = ruled("ann", "a"), ruled("ops", "o")
    number = ops.ask("POST", "/subjects/visits-key/versions", {"schema": '"bytes"'})["id"] + 1
    ops.ask("PUT", "/mode/:.late:", {"mode": "IMPORT"})
    ops.ask("POST", "/subjects/:.late:orders-value/versions", {"schema": '"long"', "id": number})
    address = urlsplit(ruled.address)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        login = base64.b64encode(b"ann:a").decode()
        head = f"GET /schemas/ids/{number}/schema HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {login}\r\n"
        assert ann.ask("GET", f"/schemas/ids/{number}/schema") == "long"
        connection.sendall(f"{head}Connection: close\r\nContent-Length: 2\r\n\r\n".encode())
        time.sleep(0.5)  # the request is admitted meanwhile; if it is not yet, it is refused
        secret = {"schema": '{"type":"record","name":"Late","fields":[]}'}
        assert ops.ask("POST", "/subjects/visits-key-2/versions", secret)["id"] == number
        connection.sendall(b"{}")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b"Late" not in answer


def record_of(name, field_type="int", *references):
    """A record with one field; `references` are subjects, each with a version 1 that defines `field_type`."""
    fields = [{"name": "code", "type": field_type}]
    return {
        "schema": json.dumps({"type": "record", "name": name, "fields": fields}),
        "references": [{"name": field_type, "subject": subject, "version": 1} for subject in references],
    }


def test_references_give_no_rights_to_what_they_refer_to(ruled):
    ann, ops = ruled("ann", "a"), ruled("ops", "o")
    hidden, linking, mine = ":.refs:visits-value", ":.refs:orders-value", ":.mine:orders-value"
    ops.ask("POST", f"/subjects/{hidden}/versions", record_of("Hidden"))
    number = ops.ask("POST", f"/subjects/{linking}/versions", record_of("Linking", "Hidden", hidden))["id"]
    calls = (f"/subjects/{mine}/versions", f"/subjects/{mine}", f"/compatibility/subjects/{mine}/versions")
    for path in calls:
        assert denied(ann, "POST", path, record_of("Peek", "Hidden", hidden))
        assert denied(ann, "POST", path, record_of("Peek", "Linking", linking))  # and that refers to it
        assert denied(ann, "POST", path, record_of("Peek", "Hidden", "visits-nothing"))  # nor that it is none
    # What it refers to is named, and not shown.
    guid = ann.ask("GET", f"/subjects/{linking}/versions/1")["guid"]
    body = record_of("Linking", "Hidden", hidden)
    for method, path, sent in (
        ("GET", f"/subjects/{linking}/versions/1", None),
        ("GET", f"/subjects/{linking}/versions/latest/schema", None),
        ("GET", f"/subjects/{linking}/metadata", None),
        ("GET", f"/contexts/.refs/schemas/ids/{number}", None),
        ("GET", f"/contexts/.refs/schemas/ids/{number}/schema", None),
        ("GET", f"/schemas/guids/{guid}", None),
    ):
        assert "code" in str(ann.ask(method, path, sent))
        assert denied(ann, method, f"{path}?format=resolved", sent)
        assert "Hidden" in str(ops.ask(method, f"{path}?format=resolved", sent))
    assert denied(ann, "POST", f"/subjects/{linking}", body)
    assert ops.ask("POST", f"/subjects/{linking}", body)["version"] == 1


def test_what_one_may_read_one_may_refer_to(ruled):
    ann = ruled("ann", "a")
    base, linking, top = ":.fine:orders-key", ":.fine:orders-value", ":.finer:orders-value"
    ann.ask("POST", f"/subjects/{base}/versions", record_of("Base"))
    ann.ask("POST", f"/subjects/{linking}/versions", record_of("Linking", "Base", base))
    top_record = record_of("Top", "Linking", linking)
    assert ann.ask("POST", f"/compatibility/subjects/{top}/versions", top_record)["is_compatible"]
    assert ann.ask("POST", f"/subjects/{top}/versions", top_record)["version"] == 1
    assert ann.ask("POST", f"/subjects/{top}", top_record)["version"] == 1
    assert "Base" in ann.ask("GET", f"/subjects/{top}/versions/1?format=resolved")["schema"]
    with pytest.raises(RegistryRefused, match="No schema reference found"):
        ann.ask("POST", f"/subjects/{top}/versions", record_of("Other", "Gone", ":.gone:orders-key"))


@pytest.mark.parametrize(
    ("method", "path", "operation", "subject"),
    [
        ("GET", "/", Operation.DESCRIBE, None),
        ("POST", "/subjects/a%2Fb-value", Operation.DESCRIBE, "a/b-value"),
        ("POST", "/subjects/versions", Operation.DESCRIBE, "versions"),
        ("POST", "/subjects/versions/versions/", Operation.WRITE, "versions"),
        ("DELETE", "/subjects/a/versions/1", Operation.DELETE, "a"),
        ("PUT", "/mode/a", Operation.ALTER_CONFIGS, "a"),
        ("DELETE", "/config", Operation.ALTER_CONFIGS, None),
        ("DELETE", "/contexts/.c", Operation.ALTER_CONFIGS, None),
        ("PUT", "/contexts/.c/config/a", Operation.ALTER_CONFIGS, "a"),
        ("POST", "/compatibility/subjects/a/versions", Operation.DESCRIBE, "a"),
    ],
)
def test_what_a_request_wants(method, path, operation, subject):
    assert wish_of(method, path) == Wish(operation, subject)


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
