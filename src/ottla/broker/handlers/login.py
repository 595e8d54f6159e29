"""SaslHandshake and SaslAuthenticate where there is no login: on listeners with one, `broker.authentication` takes them
before they come here."""

from ottla import errors
from ottla.broker.requests.context import Context
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


async def sasl_handshake(request: SaslHandshakeRequest, context: Context) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=errors.IllegalSaslState.code)


async def sasl_authenticate(request: SaslAuthenticateRequest, context: Context) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=errors.IllegalSaslState.code,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )
