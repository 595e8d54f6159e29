"""The part of `ottla kafka-configs` that is about users, clients and addresses: quotas and SCRAM credentials."""

import argparse
from decimal import Decimal

from ottla.cli.kafka_options import list_pairs
from ottla.cli.options import UsageError
from ottla.client import Admin
from ottla.client.admin.security import ITERATIONS, MECHANISMS
from ottla.errors import ResourceNotFound

KINDS = {"users": "user", "clients": "client-id", "ips": "ip"}  # as they are named in the protocol
FLAGS = {"clients": "client", "users": "user", "ips": "ip"}  # --client, --client-defaults; in Kafka's order
SAID = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
OF_CLIENTS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
KEYS = {"users": OF_CLIENTS, "clients": OF_CLIENTS, "ips": ("connection_creation_rate",)}
SPECIFIC_FROM, PLAIN_UNTIL = 1e-3, 1e7  # beyond these Java writes numbers with an exponent


class _Any:
    """Whichever name."""


ANY = _Any()
Name = str | None | _Any  # None is the default
Entities = dict[str, Name]  # by entity type, in the order of the command line


class _Entity(argparse.Action):
    """--entity-type and the names that follow each other: they belong together by their order."""

    def __call__(
        self, parser: object, namespace: argparse.Namespace, value: object, option: str | None = None
    ) -> None:
        setattr(namespace, self.dest, value if self.nargs != 0 else True)
        attribute = "entity_types" if self.dest == "entity_type" else "entity_names"
        noted = [*(getattr(namespace, attribute, None) or []), None if self.nargs == 0 else value]
        setattr(namespace, attribute, noted)


def add_arguments(parser: argparse.ArgumentParser, kinds: str) -> None:
    parser.add_argument("--entity-type", action=_Entity, help=kinds)
    parser.add_argument("--entity-name", action=_Entity)
    parser.add_argument("--entity-default", action=_Entity, nargs=0, default=False)
    for flag in FLAGS.values():
        parser.add_argument(
            f"--{flag}",
            metavar="NAME",
            help="its quotas" if flag != "user" else "its quotas, or its login with SCRAM",
        )
        parser.add_argument(f"--{flag}-defaults", action="store_true")


def entities_of(arguments: argparse.Namespace) -> Entities:
    """Empty if the command is about something else."""
    entities: Entities = {}
    for kind, flag in FLAGS.items():
        if getattr(arguments, flag) is not None:
            entities[kind] = getattr(arguments, flag)
        elif getattr(arguments, f"{flag}_defaults"):
            entities[kind] = None
    types = getattr(arguments, "entity_types", None) or []
    names = getattr(arguments, "entity_names", None) or []
    if not set(types) & set(KINDS):
        if "ips" in entities and len(entities) > 1:
            raise UsageError("Only 'users' and 'clients' may be specified together")
        return entities
    if not set(types) <= set(KINDS) or ("ips" in types and len(types) > 1):
        raise UsageError(f"Only 'users' and 'clients' may be specified together, not {', '.join(types)}")
    for number, kind in enumerate(types):
        entities[kind] = names[number] if number < len(names) else ANY
    return entities


def run(admin: Admin, arguments: argparse.Namespace, action: str, entities: Entities) -> int:
    if action == "describe":
        _describe(admin, entities)
    else:
        _alter(admin, arguments, entities)
    return 0


def _alter(admin: Admin, arguments: argparse.Namespace, entities: Entities) -> None:
    for kind, name in entities.items():
        if isinstance(name, _Any):
            raise UsageError(f"An entity name must be specified with --alter of {kind}")
    added = list_pairs(arguments.add_config)
    removed = [setting.strip() for setting in (arguments.delete_config or "").split(",") if setting.strip()]
    if not added and not removed:
        raise UsageError("At least one of --add-config or --delete-config must be specified with --alter")
    logins = [key for key in (*added, *removed) if key in MECHANISMS]
    if not logins:
        _alter_quotas(admin, entities, added, removed)
    elif len(logins) == len(added) + len(removed) and list(entities) == ["users"] and entities["users"]:
        _alter_user(admin, str(entities["users"]), added, removed)
    else:
        raise UsageError("SCRAM credentials are those of one user, and are changed without quotas")
    kind, name = next(iter(entities.items()))
    if name is None:
        print(f"Completed updating default config for {kind} in the cluster.")
    else:
        print(f"Completed updating config for {kind.removesuffix('s')} {name}.")


def _alter_quotas(admin: Admin, entities: Entities, added: dict[str, str], removed: list[str]) -> None:
    known = KEYS[next(iter(entities))]
    for key in (*added, *removed):
        if key not in known:
            raise UsageError(f"Only quota configs can be added: {key} is none of {', '.join(known)}")
    entity = {KINDS[kind]: name for kind, name in entities.items() if not isinstance(name, _Any)}
    present = next((quota.values for quota in admin.describe_quotas() if quota.entity == entity), {})
    missing = [key for key in removed if key not in present]
    if missing:
        raise UsageError(f"Invalid config(s): {','.join(missing)}")
    values: dict[str, float | None] = {key: _number(key, text) for key, text in added.items()}
    admin.alter_quotas(entity, {**values, **dict.fromkeys(removed)})


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"Cannot parse quota configuration value for {key}: {text}") from None


def _alter_user(admin: Admin, name: str, added: dict[str, str], removed: list[str]) -> None:
    for mechanism, text in added.items():
        parts = dict(part.partition("=")[::2] for part in text.split(","))
        if not parts.get("password"):
            raise UsageError(f"{mechanism} needs [password=...]")
        admin.set_user(name, parts["password"], [mechanism], int(parts.get("iterations", ITERATIONS)))
    if removed:
        admin.remove_user(name, removed)


def _describe(admin: Admin, entities: Entities) -> None:
    wanted = {KINDS[kind]: name for kind, name in entities.items()}
    for quota in admin.describe_quotas():
        if quota.entity.keys() == wanted.keys() and all(
            isinstance(name, _Any) or quota.entity[kind] == name for kind, name in wanted.items()
        ):
            values = ", ".join(f"{key}={java_double(quota.values[key])}" for key in sorted(quota.values))
            print(f"Quota configs for {_said(quota.entity)} are {values}")
    if list(entities) != ["users"] or entities["users"] is None:
        return
    _describe_logins(admin, entities["users"])


def _describe_logins(admin: Admin, name: Name) -> None:
    try:
        users = admin.describe_users([name] if isinstance(name, str) else [])
    except ResourceNotFound:
        return  # it has quotas alone, or nothing
    for user in users:
        mechanisms = ", ".join(
            f"{mechanism}=iterations={count}" for mechanism, count in user.mechanisms.items()
        )
        print(f"SCRAM credential configs for user-principal '{user.name}' are {mechanisms}")


def _said(entity: dict[str, str | None]) -> str:
    return ", ".join(
        f"{said} '{entity[kind]}'" if entity[kind] is not None else f"the default {said}"
        for kind, said in SAID.items()
        if kind in entity
    )


def java_double(value: float) -> str:
    """As Java writes a number."""
    if value == float("inf"):
        return "Infinity"
    if SPECIFIC_FROM <= value < PLAIN_UNTIL:
        return repr(float(value))
    exact = Decimal(repr(value)).normalize()
    first, *rest = map(str, exact.as_tuple().digits)
    return f"{first}.{''.join(rest) or '0'}E{exact.adjusted()}"
