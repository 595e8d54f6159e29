"""`ottla secure init DIR`: certificates, a first user, and settings for broker and clients."""

import argparse
import secrets
import sys
from pathlib import Path

from ottla.cli.options import UsageError
from ottla.security.certificates import Authority

PORT = 9093
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    init = commands.add_parser("init", help="make everything that a broker with TLS and SCRAM needs")
    init.add_argument("folder", type=Path, help="created if need be; only its owner may read it")
    init.add_argument(
        "--host", action="append", default=[], help="a name or address by which clients reach the broker"
    )
    init.add_argument("--user", default="admin", help="the first user, who may do everything (admin)")
    init.add_argument("--port", type=int, default=PORT, help=f"where the broker will listen ({PORT})")
    init.add_argument("--days", type=int, default=825, help="how long certificates are valid (825)")


def run(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.folder
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; nothing in it was changed")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    hosts = arguments.host or ["localhost", "127.0.0.1"]
    try:
        authority = Authority(arguments.days)
    except ImportError:
        raise UsageError("certificates need the extra `security`: pip install 'ottla[security]'") from None
    server = authority.issue("ottla-broker", *hosts, days=arguments.days)
    client = authority.issue(arguments.user, days=arguments.days)
    password = secrets.token_urlsafe(24)
    _write(folder / "ca.pem", authority.pem)
    _write(folder / "server.pem", server.key + server.certificate)
    _write(folder / "client.pem", client.key + client.certificate)
    _write(folder / "broker.properties", _broker(arguments, folder, hosts, password))
    _write(folder / "client.properties", _client(arguments, folder, password))
    where = f"{hosts[0]}:{arguments.port}"
    print(
        f"""In {folder}: ca.pem, server.pem, client.pem, broker.properties, client.properties (readable by you alone).

  ottla start --config {folder}/broker.properties --data ./data
  ottla topics list -b {where} --command-config {folder}/client.properties
  ottla users add alice -b {where} --command-config {folder}/client.properties
  ottla acls allow alice read --topic orders -b {where} --command-config {folder}/client.properties

Keep the folder; give clients ca.pem and a user of their own."""
    )
    return 0


def _broker(arguments: argparse.Namespace, folder: Path, hosts: list[str], password: str) -> str:
    user = arguments.user
    return f"""# TLS for everybody, and a SCRAM user. Made by `ottla secure init`.
listeners=SASL_SSL://:{arguments.port}
advertised.listeners=SASL_SSL://{hosts[0]}:{arguments.port}
inter.broker.listener.name=SASL_SSL
ssl.keystore.type=PEM
ssl.keystore.location={folder.resolve()}/server.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder.resolve()}/ca.pem
# A client may show a certificate; `required` turns away those that have none.
listener.name.sasl_ssl.ssl.client.auth=requested
sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512
# Brokers log in as this user; the first start makes it, if there are no users yet.
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={MODULE} required \\
  username="{user}" password="{password}";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{user}
"""


def _client(arguments: argparse.Namespace, folder: Path, password: str) -> str:
    return f"""security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location={folder.resolve()}/ca.pem
ssl.keystore.type=PEM
ssl.keystore.location={folder.resolve()}/client.pem
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={MODULE} required \\
  username="{arguments.user}" password="{password}";
"""


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
    print(f"wrote {path}", file=sys.stderr)
