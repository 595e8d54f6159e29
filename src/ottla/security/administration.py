"""Changes of rules, users and quotas: checked as Kafka's controller checks them, and decided on as records."""

from collections import Counter
from collections.abc import Iterable, Sequence
from ipaddress import ip_address

from ottla import errors
from ottla.errors import ProtocolError
from ottla.frozen import frozen
from ottla.metadata import security as stored
from ottla.metadata.decision import Decision
from ottla.metadata.image import Image
from ottla.metadata.records import AclAdded, QuotaEntity, QuotaSet, Record, ScramRemoved, ScramSet
from ottla.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType, is_range
from ottla.security.authorizer import CLUSTER_NAME
from ottla.security.quotas import (
    CLIENT_ID,
    CONNECTIONS,
    FETCH,
    IP,
    OF_ADDRESSES,
    OF_CLIENTS,
    PRODUCE,
    USER,
)
from ottla.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, credential_from_salted

SCRAM_DIGESTS = {1: "sha256", 2: "sha512"}  # by the protocol's number of the mechanism
SCRAM_NAMES = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
WHOLE_NUMBERS_MAX = {PRODUCE: 2**63 - 1, FETCH: 2**63 - 1, CONNECTIONS: 2**31 - 1}


# -- rules ---------------------------------------------------------------------------------------------------


def acl_of(record: AclAdded) -> Acl:
    return Acl(
        ResourceType(record.resource_type),
        record.name,
        PatternType(record.pattern),
        record.principal,
        record.host,
        Operation(record.operation),
        Permission(record.permission),
    )


def record_of(acl: Acl) -> AclAdded:
    return AclAdded(
        int(acl.resource_type),
        acl.name,
        int(acl.pattern),
        acl.principal,
        acl.host,
        int(acl.operation),
        int(acl.permission),
    )


def create_acls(wanted: Sequence[Acl | ProtocolError], image: Image) -> Decision[list[ProtocolError | None]]:
    """One result for each; what could not be read as a rule comes as its error."""
    records: list[Record] = []
    results: list[ProtocolError | None] = []
    for acl in wanted:
        error = acl if isinstance(acl, ProtocolError) else _unfit(acl)
        results.append(error)
        if error is None and isinstance(acl, Acl):
            record = record_of(acl)
            if record not in image.security.acls and record not in records:
                records.append(record)
    return Decision(tuple(records), results)


def delete_acls(filters: Iterable[AclFilter], image: Image) -> Decision[list[list[Acl]]]:
    """The rules that each filter matched; they are gone."""
    known = [acl_of(record) for record in image.security.acls]
    matched = [[acl for acl in known if wanted.matches(acl)] for wanted in filters]
    gone = dict.fromkeys(acl for acls in matched for acl in acls)
    return Decision(tuple(stored.removed(record_of(acl)) for acl in gone), matched)


def _unfit(acl: Acl) -> ProtocolError | None:
    kind, separator, name = acl.principal.partition(":")
    if not acl.name:
        return errors.InvalidRequest("Invalid empty resource name")
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return errors.InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if acl.resource_type is ResourceType.ANY:
        return errors.InvalidRequest("Invalid resourceType ANY")
    if acl.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        return errors.InvalidRequest(f"Invalid patternType {acl.pattern.name}")
    if acl.operation is Operation.ANY:
        return errors.InvalidRequest("Invalid operation type ANY")
    if acl.permission is Permission.ANY:
        return errors.InvalidRequest("Invalid permissionType ANY")
    if not (kind and separator and name):
        return errors.InvalidRequest(
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    if "/" in acl.host and not is_range(acl.host):
        return errors.InvalidRequest(f"Invalid host {acl.host}: a range of addresses is like 10.0.0.0/8")
    return None


# -- users ---------------------------------------------------------------------------------------------------


@frozen
class Upsertion:
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


@frozen
class Deletion:
    name: str
    mechanism: int


UserChange = Upsertion | Deletion


def alter_users(changes: Sequence[UserChange], image: Image) -> Decision[dict[str, ProtocolError | None]]:
    """One result for each user; a user that is named twice is not changed at all."""
    times = Counter((change.name, change.mechanism) for change in changes)
    records: list[Record] = []
    results: dict[str, ProtocolError | None] = {}
    for change in changes:
        if times[change.name, change.mechanism] > 1:
            results[change.name] = errors.DuplicateResource(
                "A user credential cannot be altered twice in the same request"
            )
            continue
        error = _unfit_user(change, image)
        if results.get(change.name) is None:
            results[change.name] = error
        if error is None:
            records.append(_user_record(change))
    failed = {name for name, error in results.items() if error is not None}
    accepted = (record for record in records if getattr(record, "name", "") not in failed)
    return Decision(tuple(accepted), results)


def _unfit_user(change: UserChange, image: Image) -> ProtocolError | None:
    if not change.name:
        return errors.UnacceptableCredential("Username must not be empty")
    if change.mechanism not in SCRAM_DIGESTS:
        return errors.UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    if isinstance(change, Deletion):
        if (change.name, change.mechanism) not in image.security.scram:
            return errors.ResourceNotFound("Attempt to delete a user credential that does not exist")
        return None
    if change.iterations < ITERATIONS_MIN:
        return errors.UnacceptableCredential("Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        return errors.UnacceptableCredential("Too many iterations")
    return None


def _user_record(change: UserChange) -> Record:
    if isinstance(change, Deletion):
        return ScramRemoved(change.name, change.mechanism)
    digest = SCRAM_DIGESTS[change.mechanism]
    credential = credential_from_salted(digest, change.salted_password, change.salt, change.iterations)
    return ScramSet(
        change.name,
        change.mechanism,
        credential.salt,
        credential.stored_key,
        credential.server_key,
        credential.iterations,
    )


# -- quotas --------------------------------------------------------------------------------------------------


@frozen
class QuotaChange:
    """`values` by the quota's key; None removes one."""

    entity: tuple[QuotaEntity, ...]
    values: tuple[tuple[str, float | None], ...]


def alter_quotas(changes: Sequence[QuotaChange], image: Image) -> Decision[list[ProtocolError | None]]:
    records: list[Record] = []
    results: list[ProtocolError | None] = []
    for change in changes:
        error = _unfit_entity(change.entity) or _unfit_values(change)
        results.append(error)
        if error is None:
            entity = tuple(sorted(change.entity, key=lambda part: part.kind))
            records += [
                QuotaSet(entity, key, None if value is None else repr(value)) for key, value in change.values
            ]
    return Decision(tuple(records), results)


def _unfit_entity(entity: tuple[QuotaEntity, ...]) -> ProtocolError | None:
    kinds = {part.kind for part in entity}
    if not kinds:
        return errors.InvalidRequest("Invalid empty client quota entity")
    for kind in sorted(kinds - {USER, CLIENT_ID, IP}):
        return errors.InvalidRequest(f"Unhandled client quota entity type: {kind}")
    for part in entity:
        if part.name == "":
            return errors.InvalidRequest(f"Empty {part.kind} not supported")
    if IP in kinds and len(kinds) > 1:
        return errors.InvalidRequest("Invalid quota entity combination: an ip has no user and no client id")
    for part in entity:
        if part.kind == IP and part.name is not None and not _is_address(part.name):
            return errors.InvalidRequest(f"{part.name} is not a valid IP address")
    return None


def _unfit_values(change: QuotaChange) -> ProtocolError | None:
    served = OF_ADDRESSES if any(part.kind == IP for part in change.entity) else OF_CLIENTS
    for key, value in change.values:
        if value is None:
            continue
        if key not in served:
            return errors.InvalidRequest(f"Invalid configuration key {key}")
        if not value > 0:
            return errors.InvalidRequest(f"Quota {key} must be greater than 0")
        if key in WHOLE_NUMBERS_MAX:
            if value > WHOLE_NUMBERS_MAX[key]:
                return errors.InvalidRequest(f"Proposed value for {key} is too large")
            if value != int(value):
                return errors.InvalidRequest(f"{key} cannot be a fractional value.")
    return None


def _is_address(name: str) -> bool:
    """Kafka takes names of hosts too, and looks them up in the controller; here the admin does."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
