"""A client's request on its way to the controller: who sent it travels with it, for quotas and tokens.

Rights were asked for where the client is connected. `handlers.envelopes` opens it at the controller.
"""

from typing import TypeVar, cast

from ottla import errors
from ottla.broker.requests.client import Sender
from ottla.wire import codec
from ottla.wire.frames import LENGTH, request_header, skip_tags
from ottla.wire.messages import APIS
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.schema import Message, Request

VERSION = 0
CORRELATION_ID = 0
R = TypeVar("R")


def sealed(request: Message, version: int, sender: Sender) -> EnvelopeRequest:
    frame = request_header(APIS[request.API_KEY], version, CORRELATION_ID, sender.client_id)
    codec.write(request, version, frame)
    return EnvelopeRequest(
        request_data=bytes(frame[LENGTH.size :]),
        request_principal=sender.client.principal.encode(),
        client_host_address=sender.client.host.encode(),
    )


def opened(answer: EnvelopeResponse, request: Request[R], version: int) -> R:
    """The controller's answer to the request inside."""
    if answer.error_code:
        raise errors.error_for(answer.error_code)
    api = APIS[request.API_KEY]
    data, position = answer.response_data or b"", LENGTH.size  # its correlation id
    if version >= api.flexible_from:
        position = skip_tags(data, position)
    response, _ = codec.read(api.response(), version, data, position)
    return cast("R", response)  # by the table of APIs
