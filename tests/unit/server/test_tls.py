"""TLS contexts from Kafka's settings; each mistake has a sentence that names the setting or the file."""

import ssl

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificate

from ottla.errors import InvalidConfig
from ottla.server.tls import TlsSettings, client_context, server_context


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def identity(authority):
    return authority.issue_cert("localhost", common_name="broker")


@pytest.fixture
def files(tmp_path, authority, identity):
    """A folder with key stores of every kind."""
    (tmp_path / "server.pem").write_bytes(identity.private_key_and_cert_chain_pem.bytes())
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    key = load_pem_private_key(identity.private_key_pem.bytes(), None)
    certificate = load_pem_x509_certificate(identity.cert_chain_pems[0].bytes())
    ca = load_pem_x509_certificate(authority.cert_pem.bytes())
    store = serialize_key_and_certificates(b"b", key, certificate, [ca], BestAvailableEncryption(b"changeit"))  # type: ignore[arg-type]
    (tmp_path / "server.p12").write_bytes(store)
    (tmp_path / "server.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    return tmp_path


def settings(**more):
    return TlsSettings.of({name.replace("_", "."): str(value) for name, value in more.items()})


def shaken_hands(server, client, name="localhost"):
    """A handshake in memory; what the server sees of the client's certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = server.wrap_bio(to_server, to_client, server_side=True)
    other = client.wrap_bio(to_client, to_server, server_hostname=name)
    waiting = [other, one]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
        if not waiting:
            return one.getpeercert()
    raise AssertionError("the handshake does not end")


def a_client(authority, identity=None):
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    if identity is not None:
        identity.configure_cert(context)
    return context


@pytest.mark.parametrize("store", ["server.pem", "server.p12"])
def test_a_key_store_in_a_file_serves(files, authority, store):
    context = server_context(settings(keystore_location=files / store, keystore_password="changeit"))
    assert shaken_hands(context, a_client(authority)) is None


def test_a_key_store_in_the_settings_serves(identity, authority):
    context = server_context(
        settings(
            keystore_key=identity.private_key_pem.bytes().decode(),
            keystore_certificate_chain=identity.cert_chain_pems[0].bytes().decode(),
        )
    )
    assert shaken_hands(context, a_client(authority)) is None


@pytest.mark.parametrize("trust", ["ca.pem", "server.p12"])
def test_a_client_certificate_is_asked_for_and_verified(files, authority, trust):
    context = server_context(
        settings(
            keystore_location=files / "server.pem",
            truststore_location=files / trust,
            truststore_password="changeit",
            client_auth="required",
        )
    )
    alice = authority.issue_cert("alice@example.org", common_name="alice")
    peer = shaken_hands(context, a_client(authority, alice))
    assert (("commonName", "alice"),) in peer["subject"]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_comment_in_a_trust_store_may_be_in_any_language(files, authority, encoding):
    trust = files / "commented.pem"
    trust.write_bytes("# Aussteller für München\n".encode(encoding) + authority.cert_pem.bytes())
    server = server_context(
        settings(keystore_location=files / "server.pem", client_auth="required", truststore_location=trust)
    )
    client = ssl.create_default_context()
    authority.configure_trust(client)
    authority.issue_cert("alice@example.com").configure_cert(client)
    assert shaken_hands(server, client)


def test_a_required_client_certificate_that_is_missing_or_foreign_ends_the_handshake(files, authority):
    context = server_context(
        settings(
            keystore_location=files / "server.pem",
            truststore_location=files / "ca.pem",
            client_auth="required",
        )
    )
    client = a_client(authority)
    client.maximum_version = ssl.TLSVersion.TLSv1_2  # 1.3 tells the client after its handshake
    with pytest.raises(ssl.SSLError):
        shaken_hands(context, client)
    stranger = a_client(authority, trustme.CA().issue_cert("mallory@example.org"))
    stranger.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        shaken_hands(context, stranger)


def test_a_requested_client_certificate_may_be_missing_but_not_foreign(files, authority):
    context = server_context(
        settings(
            keystore_location=files / "server.pem",
            truststore_location=files / "ca.pem",
            client_auth="requested",
        )
    )
    assert not shaken_hands(context, a_client(authority))
    alice = authority.issue_cert("alice@example.org", common_name="alice")
    assert (("commonName", "alice"),) in shaken_hands(context, a_client(authority, alice))["subject"]
    stranger = a_client(authority, trustme.CA().issue_cert("mallory@example.org"))
    stranger.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        shaken_hands(context, stranger)


def test_nothing_older_than_tls_1_2_is_spoken(files):
    context = server_context(settings(keystore_location=files / "server.pem"))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    only = server_context(settings(keystore_location=files / "server.pem", enabled_protocols="TLSv1.3"))
    assert only.minimum_version is ssl.TLSVersion.TLSv1_3
    with pytest.raises(InvalidConfig, match="nothing older"):
        server_context(settings(keystore_location=files / "server.pem", enabled_protocols="TLSv1.1,TLSv1.2"))


def test_ciphers_are_taken_under_the_names_that_java_has(files):
    name = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    context = server_context(settings(keystore_location=files / "server.pem", cipher_suites=name))
    older = [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert older == ["ECDHE-ECDSA-AES256-GCM-SHA384"]
    with pytest.raises(InvalidConfig, match=r"ssl\.cipher\.suites"):
        server_context(settings(keystore_location=files / "server.pem", cipher_suites="TLS_NO_SUCH"))


def test_brokers_verify_each_others_names(files, authority):
    server = server_context(settings(keystore_location=files / "server.pem"))
    client = client_context(
        settings(keystore_location=files / "server.pem", truststore_location=files / "ca.pem")
    )
    shaken_hands(server, client)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shaken_hands(server, client, name="elsewhere.example.org")


@pytest.mark.parametrize(
    "more, message",
    [
        ({}, r"needs ssl\.keystore\.location"),
        ({"keystore_location": "missing.pem"}, r"missing\.pem cannot be read: No such file"),
        ({"keystore_location": "server.jks"}, r"keytool -importkeystore .* -deststoretype PKCS12"),
        ({"keystore_location": "ca.pem"}, r"ca\.pem has no usable key and certificate"),
        ({"keystore_location": "server.p12", "keystore_password": "wrong"}, r"server\.p12 cannot be opened"),
        ({"keystore_location": "server.pem", "keystore_type": "BCFKS"}, r"is not PEM, PKCS12 or JKS"),
        ({"keystore_key": "x"}, "set together"),
        ({"keystore_location": "server.pem", "client_auth": "maybe"}, r"ssl\.client\.auth=maybe"),
        ({"keystore_location": "server.pem", "client_auth": "required"}, r"ssl\.truststore\.location"),
    ],
)
def test_a_mistake_has_a_sentence_of_its_own(files, more, message):
    texts = {name: str(files / value) if name.endswith("location") else value for name, value in more.items()}
    with pytest.raises(InvalidConfig, match=message):
        server_context(settings(**texts))
