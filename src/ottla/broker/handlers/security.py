"""Access lists, quotas and users: there are none yet, and tools are told so in the words that Kafka uses."""

from ottla import errors
from ottla.broker.context import Context
from ottla.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ottla.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

NO_AUTHORIZER = "No Authorizer is configured on the broker"


async def describe_acls(request: DescribeAclsRequest, context: Context) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=errors.SecurityDisabled.code, error_message=NO_AUTHORIZER)


async def create_acls(request: CreateAclsRequest, context: Context) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=errors.SecurityDisabled.code, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[refused for _ in request.creations])


async def delete_acls(request: DeleteAclsRequest, context: Context) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=errors.SecurityDisabled.code, error_message=NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=[refused for _ in request.filters])


async def describe_client_quotas(
    request: DescribeClientQuotasRequest, context: Context
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(entries=[])


async def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: Context
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        results=[
            DescribeUserScramCredentialsResult(
                user=each.name,
                error_code=errors.ResourceNotFound.code,
                error_message=f"Attempt to describe a user credential that does not exist: {each.name}",
            )
            for each in request.users or ()
        ]
    )
