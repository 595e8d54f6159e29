"""`ottla console`: the cluster in the browser, in a process of its own."""

import argparse
import getpass
import logging
import os
import secrets
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.beside import end_with_stdin
from ottla.cli.options import BOOTSTRAP, UsageError, add_client_options, client_settings
from ottla.errors import OttlaError
from ottla.security import passwords

if TYPE_CHECKING:
    from ottla.console.app import Console
    from ottla.console.doorway import Config
    from ottla.console.oidc import Provider

DEFAULT_PORT = 8181


class MissingExtra(OttlaError):
    """A package is not installed that comes with the extra `console`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_pages(parser)
    _add_logins(parser)
    _add_protection(parser)
    _add_sources(parser)
    parser.add_argument("--end-with-stdin", action="store_true", help=argparse.SUPPRESS)
    add_client_options(parser)


def _add_pages(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help=f"port; 0 picks one (default: {DEFAULT_PORT})"
    )
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    parser.add_argument("--allow-changes", action="store_true", help="without it, pages only read")


def _add_logins(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--login",
        choices=["token", "basic", "kafka", "oidc"],
        help="token: the printed address lets one browser in (on loopback the default); basic: names and passwords "
        "of --users; kafka: as a user of the cluster, whose rules then are the viewer's; oidc: the same with a token "
        "of an OpenID provider, for clusters with OAUTHBEARER",
    )
    parser.add_argument("--oidc-issuer", metavar="URL", help="for --login oidc: the provider")
    parser.add_argument("--oidc-client-id", metavar="ID", help="what the provider knows this console by")
    parser.add_argument("--oidc-client-secret", metavar="FILE", help="file with its secret, where it has one")
    parser.add_argument(
        "--oidc-scope", default="openid profile", help="what the token shall be for (default: openid profile)"
    )
    parser.add_argument("--users", metavar="FILE", help="for --login basic: NAME:HASH lines")
    parser.add_argument(
        "--hash-password", action="store_true", help="print the hash of a password for --users"
    )


def _add_protection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--certificate", metavar="FILE", help="PEM: serve with TLS")
    parser.add_argument("--key", metavar="FILE", help="PEM: the certificate's key")
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="listen beyond loopback without TLS (behind a proxy that has it)",
    )
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a name that browsers use for it"
    )
    parser.add_argument(
        "--mask",
        action="append",
        default=[],
        metavar="TOPIC:PART",
        help="hide key, value, value.FIELD or header.NAME of topics; * matches any part of a name",
    )


def _add_sources(parser: argparse.ArgumentParser) -> None:
    """What it shows beside the cluster itself."""
    parser.add_argument(
        "--metrics",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="/metrics of a broker or mirror: bytes out, throttles, lag of mirrors; the protocol does not tell them",
    )
    parser.add_argument(
        "--registry",
        metavar="URL",
        default=os.environ.get("OTTLA_REGISTRY", ""),
        help="a schema registry: decodes values, and shows its schemas (default: $OTTLA_REGISTRY)",
    )
    parser.add_argument(
        "--connect",
        metavar="URL",
        default=os.environ.get("OTTLA_CONNECT", ""),
        help="a Connect worker: shows its connectors (default: $OTTLA_CONNECT)",
    )
    parser.add_argument("--spark", metavar="URL", default="", help="Spark's page, for links from pipelines")


def run(arguments: argparse.Namespace) -> int:
    try:
        from ottla.console import server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ottla"):
            raise
        raise MissingExtra(f"the console needs {error.name}: pip install 'ottla[console]'") from None
    if arguments.hash_password:
        password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
        print(passwords.hash_password(password, secrets.token_bytes(16)))
        return 0
    logging.basicConfig(
        level="WARNING", stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    config = configured(arguments)
    listening = server.listen(arguments.host, arguments.port)
    config.port = listening.getsockname()[1]
    if arguments.end_with_stdin:
        end_with_stdin()
    certificate = Path(arguments.certificate) if arguments.certificate else None
    key = Path(arguments.key) if arguments.key else None
    server.serve(
        config,
        listening,
        certificate=certificate,
        key=key,
        ready=lambda console: _announce(console, arguments),
    )
    return 0


def configured(arguments: argparse.Namespace) -> "Config":
    """Checked as a whole: what is open to others must have TLS and a login."""
    from ottla.console.doorway import Config
    from ottla.console.masking import Masks
    from ottla.console.scrapes import check_address

    settings: dict[str, Any] = {"bootstrap.servers": BOOTSTRAP, **client_settings(arguments)}
    secured = str(settings.get("security.protocol", "PLAINTEXT")).upper().startswith("SASL")
    loopback = is_loopback(arguments.host)
    login = arguments.login or ("token" if loopback else "kafka" if secured else "basic")
    if not loopback and login == "token" and not arguments.insecure:
        raise UsageError(
            f"on {arguments.host} other machines get in: use --login basic or --login kafka; or --insecure with "
            "--login token where only this machine reaches the port, as in a container that publishes it on 127.0.0.1"
        )
    if not loopback and not (arguments.certificate and arguments.key) and not arguments.insecure:
        raise UsageError(
            f"on {arguments.host} passwords cross the network: give --certificate and --key, or --insecure "
            "behind a proxy that has TLS"
        )
    if login == "kafka" and not secured:
        raise UsageError(
            "--login kafka needs a cluster with logins: set security.protocol to SASL_SSL or SASL_PLAINTEXT"
        )
    if login == "oidc" and not (secured and arguments.oidc_issuer and arguments.oidc_client_id):
        raise UsageError(
            "--login oidc needs --oidc-issuer, --oidc-client-id, and a cluster that takes its tokens: set "
            "security.protocol to SASL_SSL or SASL_PLAINTEXT"
        )
    if login == "basic" and not arguments.users:
        raise UsageError(
            "--login basic needs --users FILE with NAME:HASH lines; --hash-password makes the hashes"
        )
    users = passwords.read_users(Path(arguments.users).read_text()) if login == "basic" else {}
    return Config(
        settings,
        arguments.port,
        _names(arguments),
        arguments.allow_changes,
        login,
        _provider(arguments) if login == "oidc" else None,
        users,
        Masks.parse(arguments.mask),
        bool(arguments.certificate),
        arguments.insecure and not loopback,
        _viewer(),
        tuple(check_address(page) for page in arguments.metrics),
        _checked(arguments.registry),
        _checked(arguments.connect),
        _checked(arguments.spark),
    )


def _provider(arguments: argparse.Namespace) -> "Provider":
    from ottla.console.oidc import Provider

    secret = Path(arguments.oidc_client_secret).read_text().strip() if arguments.oidc_client_secret else ""
    return Provider(_checked(arguments.oidc_issuer), arguments.oidc_client_id, secret, arguments.oidc_scope)


def _checked(url: str) -> str:
    """An address as it was given; what is none is refused at the start, not on the first page."""
    from ottla.console.schemas import split_login

    if url:
        split_login(url)
    return url


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _names(arguments: argparse.Namespace) -> tuple[str, ...]:
    host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    own = [] if host in ("0.0.0.0", "[::]") else [host]
    return tuple(dict.fromkeys(["127.0.0.1", "localhost", "[::1]", *own, *arguments.allow_host]))


def _viewer() -> str:
    """Who started it: the name in the change log when there is no login."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "local"


def _announce(console: "Console", arguments: argparse.Namespace) -> None:
    config = console.config
    host = "127.0.0.1" if arguments.host in ("0.0.0.0", "::") else arguments.host
    shown = f"[{host}]" if ":" in host else host
    base = f"{'https' if config.tls else 'http'}://{shown}:{config.port}/"
    address = base
    if config.login == "token":
        config.announce = lambda token: print(f"another browser: {base}?token={token}", flush=True)
        address = f"{base}?token={console.door.sessions.issue_token(config.viewer)}"
    print(f"console {address}", flush=True)
    if arguments.open:
        import webbrowser

        webbrowser.open(address)
