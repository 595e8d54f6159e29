"""Names and rules beside Java's: the same certificate or Kerberos principal, the same user."""

import base64
import datetime
import ssl
import subprocess
import tempfile

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ottla.errors import InvalidConfig
from ottla.security.kerberos_names import LocalNames, NoLocalName
from ottla.security.principals import MappingRules, NoPrincipal, distinguished_name
from tests.oracle import programs

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(programs.why_not_java() is not None, reason=str(programs.why_not_java())),
]
KEY = ec.generate_private_key(ec.SECP256R1())
NAMES = [
    [(NameOID.COMMON_NAME, "alice")],
    [
        (NameOID.COUNTRY_NAME, "DE"),
        (NameOID.ORGANIZATION_NAME, "Care, Inc."),
        (NameOID.COMMON_NAME, "Bob Kafka"),
    ],
    [(NameOID.ORGANIZATIONAL_UNIT_NAME, "a+b=c;<d>"), (NameOID.COMMON_NAME, 'quo"te\\slash')],
    [(NameOID.COMMON_NAME, " spaces "), (NameOID.LOCALITY_NAME, "#hash")],
    [(NameOID.DOMAIN_COMPONENT, "org"), (NameOID.DOMAIN_COMPONENT, "care"), (NameOID.USER_ID, "u1")],
    [(NameOID.STATE_OR_PROVINCE_NAME, "Böhmen"), (NameOID.COMMON_NAME, "Ottla Kafková")],
    [(NameOID.EMAIL_ADDRESS, "a@b.c"), (NameOID.COMMON_NAME, "mail")],
    [
        (NameOID.SERIAL_NUMBER, "12"),
        (NameOID.TITLE, "Dr"),
        (NameOID.GIVEN_NAME, "F"),
        (NameOID.COMMON_NAME, "x"),
    ],
]
RULES = [
    "DEFAULT",
    "RULE:^CN=(.*?),.*$/$1/L,DEFAULT",
    "RULE:^CN=([^,]*).*$/user-$1/U",
    "RULE:^.*OU=(.*?),O=(.*?)$/$1@$2/,RULE:^CN=(.*?)$/$1/",
    "RULE:^UID=(\\w+),.*$/$1$9/, RULE:^CN=(.*)$/\\$1-$1/L",
]


def certificate(attributes):
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    now = datetime.datetime(2026, 1, 1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=9999))
        .sign(KEY, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.DER)


def subject(der):
    """As a TLS connection shows it."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(ssl.DER_cert_to_PEM_cert(der))
        file.flush()
        return ssl._ssl._test_decode_cert(file.name)["subject"]  # type: ignore[attr-defined]


def mapped(rules, of):
    try:
        return MappingRules(rules).principal(of).removeprefix("User:")
    except NoPrincipal:
        return "-"


def test_names_and_principals_are_those_of_java():
    certificates = [certificate(each) for each in NAMES]
    asked = [(rules, der) for der in certificates for rules in RULES]
    text = "".join(f"{rules}\t{base64.b64encode(der).decode()}\n" for rules, der in asked)
    done = subprocess.run(
        programs.command("Principals"), input=text, capture_output=True, text=True, timeout=180, check=True
    )
    theirs = [tuple(line.split("\t")) for line in done.stdout.splitlines()]
    ours = [(distinguished_name(subject(der)), mapped(rules, subject(der))) for rules, der in asked]
    assert ours == theirs


KERBEROS = [
    "alice@CARE.TEST",
    "Alice@ELSEWHERE",
    "kafka/host.care.test@CARE.TEST",
    "hdfs/nn1@ELSEWHERE",
    "bob",
    "a@b@c",
]
KERBEROS += ["a/b/c@CARE.TEST", "@CARE.TEST", "/x@CARE.TEST", "x.y-z_1@CARE.TEST", "aXbXc@CARE.TEST"]
LOCAL_RULES = [
    "DEFAULT",
    "RULE:[1:$1]",
    "RULE:[1:$1@$0](.*@CARE.TEST)s/@.*//",
    "RULE:[2:$1;$2](^.*;host.*$)s/;.*$//,DEFAULT",
    "RULE:[2:$2.$1.$0]/L",
    "RULE:[1:$1]/U,RULE:[2:$1]/L",
    "RULE:[1:$1]s/X/-/,RULE:[2:$1]s/(k)(a)/$2$1/g",
    "RULE:[1:$1]s/X/-/g/U",
    "RULE:[1:$1]s/(a)(X)/$2$1$9/,DEFAULT",
    "RULE:[1:$1@$0]",
    "RULE:[1:$2],DEFAULT",
    "RULE:[1:$]",
    "RULE:[:$0]",
    "RULE:[2:$1]L",
    "RULE:[1:$1](alice)s/a/b/g/L , DEFAULT",
    "RULE:[1:fixed]",
    "RULE",
    "RULE:[1:$1](a,b),DEFAULT",
]


def local(rules, principal):
    try:
        return LocalNames(rules, "CARE.TEST").name(principal)
    except (NoLocalName, InvalidConfig):
        return "-"


def test_kerberos_principals_are_the_users_that_kafka_makes_of_them():
    asked = [(rules, principal) for rules in LOCAL_RULES for principal in KERBEROS]
    text = "".join(f"{rules}\t{principal}\n" for rules, principal in asked)
    done = subprocess.run(
        programs.command("KerberosNames"), input=text, capture_output=True, text=True, timeout=180, check=True
    )
    theirs = dict(zip(asked, done.stdout.splitlines(), strict=True))
    ours = {one: local(*one) for one in asked}
    assert {one: (name, theirs[one]) for one, name in ours.items() if name != theirs[one]} == {}
    assert {"alice", "kafka", "-"} <= set(theirs.values())
