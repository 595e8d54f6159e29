"""ACLs, SCRAM users and client quotas. Changes are records of the metadata log, decided by the controller."""

from collections import Counter, defaultdict

from ottla import errors
from ottla.broker.requests.context import Context
from ottla.errors import ProtocolError
from ottla.metadata.records import QuotaEntity, ScramSet
from ottla.security import administration
from ottla.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from ottla.security.administration import Deletion, QuotaChange, Upsertion, UserChange
from ottla.security.quotas import CLIENT_ID, IP, USER
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    ResponseEntityData,
    ResponseEntryData,
)
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ottla.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntryData,
    ValueData,
)
from ottla.wire.messages.describe_client_quotas import EntityData as DescribedEntity
from ottla.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

NO_AUTHORIZER = "No Authorizer is configured."


# -- ACLs ----------------------------------------------------------------------------------------------------


async def describe_acls(request: DescribeAclsRequest, context: Context) -> DescribeAclsResponse:
    if not context.has_authorizer:
        return DescribeAclsResponse(error_code=errors.SecurityDisabled.code, error_message=NO_AUTHORIZER)
    try:
        wanted = _filter(request)
    except ProtocolError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    by_resource: dict[tuple[int, str, int], list[AclDescription]] = defaultdict(list)
    for record in context.metadata.image.security.acls:
        if wanted.matches(administration.acl_of(record)):
            by_resource[record.resource_type, record.name, record.pattern].append(
                AclDescription(
                    principal=record.principal,
                    host=record.host,
                    operation=record.operation,
                    permission_type=record.permission,
                )
            )
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls)
            for (kind, name, pattern), acls in by_resource.items()
        ]
    )


async def create_acls(request: CreateAclsRequest, context: Context) -> CreateAclsResponse:
    if not context.has_authorizer:
        refused = AclCreationResult(error_code=errors.SecurityDisabled.code, error_message=NO_AUTHORIZER)
        return CreateAclsResponse(results=[refused for _ in request.creations])
    wanted = [_acl(creation) for creation in request.creations]
    results = await context.metadata.change(lambda image, config: administration.create_acls(wanted, image))
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=error.code, error_message=error.message)
            if error is not None
            else AclCreationResult()
            for error in results
        ]
    )


async def delete_acls(request: DeleteAclsRequest, context: Context) -> DeleteAclsResponse:
    if not context.has_authorizer:
        refused = DeleteAclsFilterResult(error_code=errors.SecurityDisabled.code, error_message=NO_AUTHORIZER)
        return DeleteAclsResponse(filter_results=[refused for _ in request.filters])
    filters: list[AclFilter | ProtocolError] = []
    for asked in request.filters:
        try:
            filters.append(_filter(asked))
        except ProtocolError as error:
            filters.append(error)
    valid = [parsed for parsed in filters if isinstance(parsed, AclFilter)]
    matched = iter(
        await context.metadata.change(lambda image, config: administration.delete_acls(valid, image))
    )
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(matching_acls=[_matching(acl) for acl in next(matched)])
            if isinstance(parsed, AclFilter)
            else DeleteAclsFilterResult(error_code=parsed.code, error_message=parsed.message)
            for parsed in filters
        ]
    )


def _acl(creation: AclCreation) -> Acl | ProtocolError:
    try:
        return Acl(
            ResourceType(creation.resource_type),
            creation.resource_name,
            PatternType(creation.resource_pattern_type),
            creation.principal,
            creation.host,
            Operation(creation.operation),
            Permission(creation.permission_type),
        )
    except ValueError:
        return errors.InvalidRequest(
            "The rule has an unknown resource, pattern, operation or permission type"
        )


def _filter(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    try:
        return AclFilter(
            ResourceType(wanted.resource_type_filter),
            wanted.resource_name_filter,
            PatternType(wanted.pattern_type_filter),
            wanted.principal_filter,
            wanted.host_filter,
            Operation(wanted.operation),
            Permission(wanted.permission_type),
        )
    except ValueError:
        raise errors.InvalidRequest(
            "The filter has an unknown resource, pattern, operation or permission type"
        ) from None


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


# -- users ---------------------------------------------------------------------------------------------------


async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: Context
) -> AlterUserScramCredentialsResponse:
    changes: list[UserChange] = [
        Deletion(deletion.name, deletion.mechanism) for deletion in request.deletions
    ]
    changes += [
        Upsertion(
            upsertion.name,
            upsertion.mechanism,
            upsertion.iterations,
            upsertion.salt,
            upsertion.salted_password,
        )
        for upsertion in request.upsertions
    ]
    results = await context.metadata.change(lambda image, config: administration.alter_users(changes, image))
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=name)
            if error is None
            else AlterUserScramCredentialsResult(
                user=name, error_code=error.code, error_message=error.message
            )
            for name, error in results.items()
        ]
    )


async def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: Context
) -> DescribeUserScramCredentialsResponse:
    known: dict[str, list[ScramSet]] = defaultdict(list)
    for credential in context.metadata.image.security.scram.values():
        known[credential.name].append(credential)
    names = [user.name for user in request.users or ()] or sorted(known)
    return DescribeUserScramCredentialsResponse(
        results=[_described(name, known.get(name, []), times > 1) for name, times in Counter(names).items()]
    )


def _described(
    name: str, credentials: list[ScramSet], is_doubled: bool
) -> DescribeUserScramCredentialsResult:
    if is_doubled:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=errors.DuplicateResource.code,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    if not credentials:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=errors.ResourceNotFound.code,
            error_message=f"Attempt to describe a user credential that does not exist: {name}",
        )
    return DescribeUserScramCredentialsResult(
        user=name,
        credential_infos=[
            CredentialInfo(mechanism=credential.mechanism, iterations=credential.iterations)
            for credential in sorted(credentials, key=lambda credential: credential.mechanism)
        ],
    )


# -- quotas --------------------------------------------------------------------------------------------------

EXACT, DEFAULT, ANY = 0, 1, 2  # how a component of a filter matches


async def alter_client_quotas(
    request: AlterClientQuotasRequest, context: Context
) -> AlterClientQuotasResponse:
    changes = [
        QuotaChange(
            _entity(entry.entity),
            tuple((op.key, None if op.remove else op.value) for op in entry.ops),
        )
        for entry in request.entries
    ]
    results = await context.metadata.change(
        lambda image, config: administration.alter_quotas(changes, image), validate_only=request.validate_only
    )
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                error_code=0 if error is None else error.code,
                error_message=None if error is None else error.message,
                entity=[
                    ResponseEntityData(entity_type=part.kind, entity_name=part.name) for part in change.entity
                ],
            )
            for change, error in zip(changes, results, strict=True)
        ]
    )


def _entity(parts: list[EntityData]) -> tuple[QuotaEntity, ...]:
    """Of a kind that is named twice the last counts, as in Kafka."""
    by_kind = {part.entity_type: part.entity_name for part in parts}
    return tuple(QuotaEntity(kind, by_kind[kind]) for kind in sorted(by_kind))


async def describe_client_quotas(
    request: DescribeClientQuotasRequest, context: Context
) -> DescribeClientQuotasResponse:
    try:
        _check_filter(request.components)
    except ProtocolError as error:
        return _bad_filter(error)
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                entity=[DescribedEntity(entity_type=part.kind, entity_name=part.name) for part in entity],
                values=[ValueData(key=key, value=float(text)) for key, text in quotas.items()],
            )
            for entity, quotas in context.metadata.image.security.quotas.items()
            if _is_wanted(entity, request)
        ]
    )


def _is_wanted(entity: tuple[QuotaEntity, ...], request: DescribeClientQuotasRequest) -> bool:
    names = {part.kind: part.name for part in entity}
    if request.strict and len(names) != len(request.components):
        return False
    return all(
        component.entity_type in names and _matches(component, names[component.entity_type])
        for component in request.components
    )


def _matches(component: ComponentData, name: str | None) -> bool:
    if component.match_type == EXACT:
        return name == component.match
    return component.match_type == ANY or name is None


def _check_filter(components: list[ComponentData]) -> None:
    kinds = [component.entity_type for component in components]
    for component in components:
        _check_component(component)
        if kinds.count(component.entity_type) > 1:
            raise errors.InvalidRequest(
                f"Entity type {component.entity_type} cannot appear more than once in the filter."
            )
    if IP in kinds and len(kinds) > 1:
        raise errors.InvalidRequest("Invalid entity filter component combination: ip stands alone")


def _check_component(component: ComponentData) -> None:
    if not component.entity_type:
        raise errors.InvalidRequest("Invalid empty entity type.")
    if component.entity_type not in (USER, CLIENT_ID, IP):
        raise errors.UnsupportedVersion(f"Unsupported entity type {component.entity_type}")
    if component.match_type not in (EXACT, DEFAULT, ANY):
        raise errors.InvalidRequest(f"Unknown match type {component.match_type}")
    if (component.match_type == EXACT) != (component.match is not None):
        raise errors.InvalidRequest("A name belongs to an exact match, and to no other")


def _bad_filter(error: ProtocolError) -> DescribeClientQuotasResponse:
    response = DescribeClientQuotasResponse(error_code=error.code, error_message=error.message)
    response.entries = None
    return response
