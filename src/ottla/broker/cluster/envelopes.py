"""A client's request on its way to the controller: who sent it travels with it, for quotas and tokens.

Rights were asked for where the client is connected. `handlers.envelopes` opens it at the controller.
"""

from typing import Any

from ottla import errors
from ottla.broker.requests.client import Sender
from ottla.wire import codec
from ottla.wire.frames import LENGTH, request_header, skip_tags
from ottla.wire.messages import APIS
from ottla.wire.messages.envelope import EnvelopeRequest
from ottla.wire.schema import Message

VERSION = 0
CORRELATION_ID = 0


def sealed(request: Message, version: int, sender: Sender) -> EnvelopeRequest:
    frame = request_header(APIS[request.API_KEY], version, CORRELATION_ID, sender.client_id)
    codec.write(request, version, frame)
    return EnvelopeRequest(
        request_data=bytes(frame[LENGTH.size :]),
        request_principal=sender.client.principal.encode(),
        client_host_address=sender.client.host.encode(),
    )


def opened(answer: Any, request: Message, version: int) -> Message:
    """The controller's answer to the request inside."""
    if answer.error_code:
        raise errors.error_for(answer.error_code)
    api = APIS[request.API_KEY]
    position = LENGTH.size  # its correlation id
    if version >= api.flexible_from:
        position = skip_tags(answer.response_data, position)
    response, _ = codec.read(api.response(), version, answer.response_data, position)
    return response
