"""`ottla kafka-delegation-tokens`: with Apache Kafka's flags and output."""

import argparse
import base64
from datetime import datetime

from ottla.cli.kafka_options import add_bootstrap, need, one_of, settings
from ottla.client import Admin
from ottla.client.admin.tokens import Token

ACTIONS = ("create", "renew", "expire", "describe")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap(parser)
    for action in ACTIONS:
        parser.add_argument(f"--{action}", action="store_true")
    parser.add_argument("--owner-principal", metavar="User:NAME", action="append")
    parser.add_argument("--renewer-principal", metavar="User:NAME", action="append", default=[])
    parser.add_argument(
        "--max-life-time-period", metavar="MS", type=int, help="-1: the longest that the broker allows"
    )
    parser.add_argument(
        "--renew-time-period", metavar="MS", type=int, help="-1 is as long as the broker says"
    )
    parser.add_argument("--expiry-time-period", metavar="MS", type=int, help="-1 is at once")
    parser.add_argument("--hmac", metavar="BASE64", help="the token's secret")


def run(arguments: argparse.Namespace) -> int:
    action = one_of(arguments, ACTIONS)
    _check(arguments, action)
    with Admin(settings(arguments, default_api_timeout_ms=15_000)) as admin:
        if action == "create":
            print(
                f"Calling create token operation with renewers :{_set(arguments.renewer_principal)} , "
                f"max-life-time-period :{arguments.max_life_time_period}"
            )
            owner = (arguments.owner_principal or [None])[0]
            token = admin.create_token(
                arguments.renewer_principal, lifetime_ms=arguments.max_life_time_period, owner=owner
            )
            print(f"Created delegation token with tokenId : {token.id}")
            _show([token])
        elif action == "renew":
            print(
                f"Calling renew token operation with hmac :{arguments.hmac} , "
                f"renew-time-period :{arguments.renew_time_period}"
            )
            expires_ms = admin.renew_token(base64.b64decode(arguments.hmac), arguments.renew_time_period)
            print(f"Completed renew operation. New expiry date : {local_time(expires_ms)}")
        elif action == "expire":
            print(
                f"Calling expire token operation with hmac :{arguments.hmac} , "
                f"expire-time-period :{arguments.expiry_time_period}"
            )
            expires_ms = admin.expire_token(base64.b64decode(arguments.hmac), arguments.expiry_time_period)
            print(f"Completed expire operation. New expiry date : {local_time(expires_ms)}")
        else:
            owners = arguments.owner_principal
            print(
                f"Calling describe token operation for owners: {_set(owners or [])}"
                if owners
                else "Calling describe token operation for current user."
            )
            tokens = admin.describe_tokens(owners)
            print(f"Total number of tokens : {len(tokens)}", end="")
            _show(tokens)
    return 0


def _check(arguments: argparse.Namespace, action: str) -> None:
    need(arguments, "command-config")
    if action == "create":
        need(arguments, "max-life-time-period")
    elif action == "renew":
        need(arguments, "hmac", "renew-time-period")
    elif action == "expire":
        need(arguments, "hmac", "expiry-time-period")


def _set(names: list[str]) -> str:
    return f"[{', '.join(names)}]"


def _show(tokens: list[Token]) -> None:
    row = "{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"
    print(
        "\n"
        + row.format(
            "TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE"
        )
    )
    for token in tokens:
        times = [local_time(at_ms) for at_ms in (token.issued_ms, token.expires_ms, token.ends_ms)]
        secret, renewers = base64.b64encode(token.secret).decode(), _set(list(token.renewers))
        print("\n" + row.format(token.id, secret, token.owner, token.requester, renewers, *times))


def local_time(milliseconds: int) -> str:
    """To the minute, as Kafka's tool prints it."""
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%Y-%m-%dT%H:%M")
