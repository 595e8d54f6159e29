"""`ottla secure init DIR`: certificates, a first user, and settings for broker and clients."""

import argparse
import secrets
import sys
from pathlib import Path

from ottla.cli.options import UsageError
from ottla.security.certificates import Authority

PORT = 9093


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
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    hosts = arguments.host or ["localhost", "127.0.0.1"]
    try:
        authority = Authority()
    except ImportError:
        raise UsageError("certificates need the extra `security`: pip install 'ottla[security]'") from None
    server = authority.issue("ottla-broker", *hosts, days=arguments.days)
    password = secrets.token_urlsafe(24)
    _write(folder / "ca.pem", authority.pem)
    _write(folder / "server.pem", server.key + server.certificate)
    _write(folder / "broker.properties", _broker(arguments, folder, hosts, password))
    _write(folder / "client.properties", _client(arguments, folder, password))
    where = f"{hosts[0]}:{arguments.port}"
    print(
        f"""In {folder}: ca.pem, server.pem, broker.properties, client.properties (all readable by you alone).

  ottla start --config {folder}/broker.properties --data ./data
  ottla topics list -b {where} --command-config {folder}/client.properties
  ottla users add alice -b {where} --command-config {folder}/client.properties
  ottla acls allow alice read --topic orders -b {where} --command-config {folder}/client.properties

Keep the folder; give clients ca.pem and a user of their own."""
    )
    return 0


def _broker(arguments: argparse.Namespace, folder: Path, hosts: list[str], password: str) -> str:
    user = arguments.user
    return f"""# TLS for everybody, SCRAM for users, PLAIN (over TLS) for the first one. Made by `ottla secure init`.
listeners=SASL_SSL://:{arguments.port}
advertised.listeners=SASL_SSL://{hosts[0]}:{arguments.port}
inter.broker.listener.name=SASL_SSL
ssl.keystore.type=PEM
ssl.keystore.location={folder.resolve()}/server.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder.resolve()}/ca.pem
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="{user}" password="{password}" user_{user}="{password}";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{user}
"""


def _client(arguments: argparse.Namespace, folder: Path, password: str) -> str:
    return f"""security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location={folder.resolve()}/ca.pem
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="{arguments.user}" password="{password}";
"""


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
    print(f"wrote {path}", file=sys.stderr)
