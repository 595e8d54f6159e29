"""`ottla kafka-client-metrics`: subscriptions to the metrics of clients, with Apache Kafka's flags and output."""

import argparse
import base64
import uuid

from ottla.cli.kafka_options import add_bootstrap, one_of, settings
from ottla.cli.options import UsageError
from ottla.client import Admin

KIND, SOURCE = "client-metrics", "CLIENT_METRICS_CONFIG"
OPTIONS = {"interval": "interval.ms", "match": "match", "metrics": "metrics"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap(parser)
    for action in ("alter", "delete", "describe", "list"):
        parser.add_argument(f"--{action}", action="store_true")
    parser.add_argument("--name", help="of the subscription")
    parser.add_argument("--generate-name", action="store_true")
    parser.add_argument("--interval", metavar="MS", help="between two pushes; empty: the default")
    parser.add_argument("--match", metavar="k1=v1,k2=v2", help="which clients; empty: all")
    parser.add_argument("--metrics", metavar="m1,m2", help="prefixes of names; * for all")


def run(arguments: argparse.Namespace) -> int:
    action = one_of(arguments, ("alter", "delete", "describe", "list"))
    _check(arguments, action)
    with Admin(settings(arguments, default_api_timeout_ms=15_000)) as admin:
        if action == "alter":
            _alter(admin, arguments)
        elif action == "delete":
            set_ = [
                name
                for name, config in admin.describe_configs(KIND, arguments.name).items()
                if config.source == SOURCE
            ]
            if set_:
                admin.alter_configs(KIND, arguments.name, delete=set_)
            print(f"Deleted client metrics config for {arguments.name}.")
        elif action == "list":
            print("".join(f"{name}\n" for name in admin.list_config_resources(KIND)), end="")
        else:
            _describe(admin, arguments.name)
    return 0


def _check(arguments: argparse.Namespace, action: str) -> None:
    if action == "alter" and not arguments.name and not arguments.generate_name:
        raise UsageError("One of --name or --generate-name must be specified with --alter.")
    if action == "delete" and not arguments.name:
        raise UsageError("A client metrics resource name must be specified with --delete.")
    if action == "list" and arguments.name:
        raise UsageError('Option "[list]" can\'t be used with option "[name]"')


def _alter(admin: Admin, arguments: argparse.Namespace) -> None:
    name = arguments.name or base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    named = {setting: getattr(arguments, option) for option, setting in OPTIONS.items()}
    wanted = {setting: value for setting, value in named.items() if value}
    reset = [setting for setting, value in named.items() if value == ""]
    if wanted or reset:
        admin.alter_configs(KIND, name, set_=wanted, delete=reset)
    print(f"Altered client metrics config for {name}.")


def _describe(admin: Admin, name: str | None) -> None:
    known = admin.list_config_resources(KIND)
    if name is not None and name not in known:
        print(f"The client metric resource {name} doesn't exist and doesn't have dynamic config.")
        return
    for subscription in known if name is None else [name]:
        print(f"Client metrics configs for {subscription} are:")
        for setting, config in sorted(admin.describe_configs(KIND, subscription).items()):
            print(f"  {setting}={config.value}")
