"""Envelope: a client's request that another broker passed on to the controller, with the client's name."""

from dataclasses import replace

from ottla import errors
from ottla.broker.requests.client import Client
from ottla.broker.requests.context import Context
from ottla.broker.requests.refusals import refusal
from ottla.broker.requests.responses import encode
from ottla.broker.routes import ROUTES, Route
from ottla.errors import ProtocolError
from ottla.wire import codec
from ottla.wire.frames import LENGTH, read_request_header, skip_tags
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

ANSWER_ELEMENTS_MAX = 1 << 30  # what is relayed is a part of a large request: its answer is not long


async def envelope(request: EnvelopeRequest, context: Context) -> EnvelopeResponse:
    """At the controller: the request inside, done for the client that sent it."""
    if not context.client.is_peer:
        raise errors.ClusterAuthorizationFailed("an envelope comes from a broker of this cluster")
    header, position = read_request_header(request.request_data)
    route = _relayable(header.api_key, header.api_version)
    if header.api_version >= route.api.flexible_from:
        position = skip_tags(request.request_data, position)
    enclosed, *_ = codec.read_bounded(
        route.request,
        header.api_version,
        request.request_data,
        position,
        elements_max=context.config.ottla_request_elements_max,
    )
    sender = Client(
        bytes(request.client_host_address).decode(),
        0,
        context.client.listener,
        bytes(request.request_principal or b"").decode(),
        is_peer=True,
        work=context.client.work,
    )
    inside = replace(context, client=sender, client_id=header.client_id or "", api_version=header.api_version)
    try:
        response = await route.handler(enclosed, inside)
    except ProtocolError as error:
        response = refusal(route.api, header.api_version, enclosed, error)
    answer = encode(
        route.api, header.api_version, header.correlation_id, response, elements_max=ANSWER_ELEMENTS_MAX
    )
    frame = b"".join(answer.buffers())
    return EnvelopeResponse(response_data=frame[LENGTH.size :])


def _relayable(api_key: int, version: int) -> Route:
    route = ROUTES.get(api_key)
    if route is None or not (route.by_controller or route.checks_first):
        raise errors.InvalidRequest(f"API {api_key} is not relayed to the controller")
    if not route.version_min <= version <= route.version_max:
        raise errors.InvalidRequest(f"API {api_key} version {version} is not served")
    return route
