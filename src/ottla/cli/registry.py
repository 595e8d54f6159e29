"""`ottla registry`: serves a schema registry, and asks one."""

import argparse
import json
import os
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ottla.cli.options import (
    Commands,
    UsageError,
    add_client_options,
    add_json_option,
    add_timeout_option,
    client_settings,
)
from ottla.cli.tables import show, show_json

if TYPE_CHECKING:
    from ottla.registry.login import Login
    from ottla.serialization.registry_client import RegistryClient

URL = "http://127.0.0.1:8081"
TIMEOUT_S = 10
_TYPES = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="serve the registry of a cluster", description="until Ctrl-C")
    add_client_options(serve)
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    serve.add_argument("--port", type=int, default=8081, help="port; 0 picks one (default: 8081)")
    serve.add_argument("--topic", default="_schemas", help="where schemas are kept (default: _schemas)")
    serve.add_argument("--end-with-stdin", action="store_true", help=argparse.SUPPRESS)
    serve.add_argument("--ssl-cert", metavar="FILE", help="serve HTTPS with this certificate (PEM)")
    serve.add_argument("--ssl-key", metavar="FILE", help="its key (PEM)")
    serve.add_argument("--ssl-key-password", metavar="TEXT", help="of the key, if it has one")
    serve.add_argument(
        "--ssl-ca", metavar="FILE", help="clients need a certificate that one of these signed (PEM)"
    )
    serve.add_argument(
        "--login",
        choices=["none", "basic", "kafka"],
        default="none",
        help="basic: names and passwords of --users; kafka: users of the cluster, which must have logins",
    )
    serve.add_argument(
        "--users",
        metavar="FILE",
        help="for --login basic: NAME:HASH lines, or NAME:HASH:read; `ottla console --hash-password` makes hashes",
    )
    _asking(commands, "list", "subjects and their versions").add_argument("--deleted", action="store_true")
    shown = _asking(commands, "show", "a schema, by subject or by id")
    shown.add_argument("which", metavar="SUBJECT|ID")
    shown.add_argument("--version", default="latest")
    for name, text in (("register", "register a schema"), ("check", "would this schema be compatible?")):
        command = _asking(commands, name, text)
        command.add_argument("subject")
        command.add_argument("file", help="schema file (.avsc, .proto, .json); - for standard input")
        command.add_argument(
            "--type", choices=["AVRO", "PROTOBUF", "JSON"], help="by default from the file's name"
        )
        command.add_argument(
            "--reference",
            action="append",
            default=[],
            metavar="NAME=SUBJECT:VERSION",
            help="what it refers to",
        )
    level = _asking(commands, "level", "show or set the compatibility level, of all or of a subject")
    level.add_argument("level", nargs="?", help="BACKWARD, FULL_TRANSITIVE, NONE, ...")
    level.add_argument("--subject")
    delete = _asking(commands, "delete", "delete a subject or a version")
    delete.add_argument("subject")
    delete.add_argument("--version", help="one version instead of all")
    delete.add_argument("--permanent", action="store_true", help="for good, after a first deletion")


def _asking(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    command.add_argument(
        "--url",
        default=os.environ.get("OTTLA_REGISTRY", URL),
        help=f"the registry (default: $OTTLA_REGISTRY, else {URL})",
    )
    command.add_argument("--user", metavar="NAME:PASSWORD", help="for registries with a login")
    command.add_argument("--ca", metavar="FILE", help="who signed the registry's certificate (PEM)")
    command.add_argument(
        "--certificate", metavar="FILE", help="our own certificate, where one is asked for (PEM)"
    )
    command.add_argument("--key", metavar="FILE", help="its key (PEM)")
    add_timeout_option(command, TIMEOUT_S)
    add_json_option(command)
    return command


def run(arguments: argparse.Namespace) -> int:
    if arguments.command == "serve":
        return _serve(arguments)
    from ottla.serialization.registry_client import RegistryClient  # HTTP: `serve` starts without it

    user = tuple(arguments.user.split(":", 1)) if arguments.user else None
    client = RegistryClient(
        arguments.url,
        user=user,
        ca=arguments.ca,
        certificate=arguments.certificate,
        key=arguments.key,
        timeout_s=arguments.timeout,
    )
    return _COMMANDS[arguments.command](client, arguments)


def _serve(arguments: argparse.Namespace) -> int:
    from concurrent.futures import ThreadPoolExecutor

    from ottla.registry.store import TopicStore

    if arguments.end_with_stdin:
        from ottla.cli.beside import end_with_stdin  # brings the settings of brokers

        end_with_stdin()
    settings = client_settings(arguments)
    login = _login(arguments, settings)
    store = TopicStore(settings, arguments.topic)
    with ThreadPoolExecutor(1, "registry-start") as starter:
        reading = starter.submit(store.start)
        from ottla.registry.http import Server  # while the broker answers

        reading.result()
    try:
        server = Server(
            store,
            arguments.host,
            arguments.port,
            login,
            ssl_certfile=arguments.ssl_cert,
            ssl_keyfile=arguments.ssl_key,
            ssl_keyfile_password=arguments.ssl_key_password,
            ssl_ca_certs=arguments.ssl_ca,
            ssl_cert_reqs=ssl.CERT_REQUIRED if arguments.ssl_ca else ssl.CERT_NONE,
        )
        server.start()
        print(f"schema registry: {server.address}", flush=True)
        server.wait()
    finally:
        store.close()
    return 0


def _login(arguments: argparse.Namespace, settings: dict[str, Any]) -> "Login | None":
    if bool(arguments.ssl_ca or arguments.ssl_key) and not arguments.ssl_cert:
        raise UsageError("--ssl-key and --ssl-ca need --ssl-cert")
    if (arguments.login == "basic") != bool(arguments.users):
        raise UsageError("--login basic and --users FILE belong together")
    if arguments.login == "none":
        return None
    from ottla.registry.login import Login, of_cluster, of_file

    if arguments.login == "basic":
        return Login(of_file(Path(arguments.users).read_text()))
    if not str(settings.get("security.protocol", "")).upper().startswith("SASL"):
        raise UsageError(
            "--login kafka needs a cluster with logins: set security.protocol in --command-config"
        )
    return Login(of_cluster(settings, arguments.topic))


def _list(client: "RegistryClient", arguments: argparse.Namespace) -> int:
    rows = client.ask("GET", "/schemas" + ("?deleted=true" if arguments.deleted else ""))
    show(
        arguments,
        ("SUBJECT", "VERSION", "ID", "TYPE"),
        [(row["subject"], row["version"], row["id"], row.get("schemaType", "AVRO")) for row in rows],
    )
    return 0


def _show(client: "RegistryClient", arguments: argparse.Namespace) -> int:
    if arguments.which.isdecimal():
        registered = client.schema(int(arguments.which))
    else:
        registered = client.version(arguments.which, arguments.version)
    if arguments.json:
        show_json({"id": registered.schema_id, "type": registered.schema_type, "schema": registered.schema})
    elif registered.schema_type == "PROTOBUF":
        print(registered.schema.rstrip())
    else:
        print(json.dumps(json.loads(registered.schema), indent=2, ensure_ascii=False))
    return 0


def _register(client: "RegistryClient", arguments: argparse.Namespace) -> int:
    text, kind = _schema(arguments)
    registered = client.register(arguments.subject, text, kind, _references(arguments))
    if arguments.json:
        show_json({"id": registered.schema_id, "version": registered.version})
    else:
        print(f"{arguments.subject}: version {registered.version}, id {registered.schema_id}")
    return 0


def _check(client: "RegistryClient", arguments: argparse.Namespace) -> int:
    text, kind = _schema(arguments)
    body = {"schema": text, "schemaType": kind, "references": _references(arguments)}
    path = f"/compatibility/subjects/{quote(arguments.subject, safe='')}/versions?verbose=true"
    answer = client.ask("POST", path, body)
    if arguments.json:
        show_json(answer)
    else:
        print("compatible" if answer["is_compatible"] else "\n".join(["not compatible", *answer["messages"]]))
    return 0 if answer["is_compatible"] else 1


def _level(client: "RegistryClient", arguments: argparse.Namespace) -> int:
    path = "/config" + (f"/{quote(arguments.subject, safe='')}" if arguments.subject else "")
    if arguments.level:
        client.ask("PUT", path, {"compatibility": arguments.level.upper()})
    answer = client.ask("GET", path + "?defaultToGlobal=true")
    show(arguments, ("LEVEL",), [(answer["compatibilityLevel"],)])
    return 0


def _delete(client: "RegistryClient", arguments: argparse.Namespace) -> int:
    path = f"/subjects/{quote(arguments.subject, safe='')}"
    path += f"/versions/{arguments.version}" if arguments.version else ""
    gone = client.ask("DELETE", path + ("?permanent=true" if arguments.permanent else ""))
    versions = gone if isinstance(gone, list) else [gone]
    show(arguments, ("DELETED-VERSION",), [(version,) for version in versions])
    return 0


def _schema(arguments: argparse.Namespace) -> tuple[str, str]:
    text = sys.stdin.read() if arguments.file == "-" else Path(arguments.file).read_text()
    return text, arguments.type or _TYPES.get(Path(arguments.file).suffix, "AVRO")


def _references(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    references = []
    for text in arguments.reference:
        name, _, where = text.partition("=")
        subject, _, version = where.rpartition(":")
        if not subject or not version.isdecimal():
            raise ValueError(f"--reference {text}: write NAME=SUBJECT:VERSION")
        references.append({"name": name, "subject": subject, "version": int(version)})
    return references


_COMMANDS = {
    "list": _list,
    "show": _show,
    "register": _register,
    "check": _check,
    "level": _level,
    "delete": _delete,
}
