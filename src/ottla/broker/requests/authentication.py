"""SASL on one connection: nothing but the login is served until the client is known.

SaslHandshake names a mechanism, then its messages follow: as SaslAuthenticate requests after a handshake of
version 1, as bare frames after one of version 0. A client may log in again on the same connection (KIP-368).
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum, auto
from typing import Any, Protocol

from ottla.broker.requests.client import Client
from ottla.broker.requests.responses import encode
from ottla.broker.stepping import REQUEST_UNITS
from ottla.errors import IllegalSaslState, ProtocolError, SaslAuthenticationFailed, UnsupportedSaslMechanism
from ottla.frozen import frozen
from ottla.ports import Buffer, Clock
from ottla.security.mechanisms import Aside, Authenticated, Exchange
from ottla.wire import codec
from ottla.wire.frames import API_VERSIONS, LENGTH, RequestHeader, read_request_header, skip_tags
from ottla.wire.messages import APIS
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.schema import Message

logger = logging.getLogger("ottla.broker")

HANDSHAKE, AUTHENTICATE = SaslHandshakeRequest.API_KEY, SaslAuthenticateRequest.API_KEY
BARE_TOKENS, FRAMED_TOKENS = 0, 1  # versions of SaslHandshake
LOGINS, FAILED_LOGINS = "ottla_logins_total", "ottla_failed_logins_total"  # metrics
REAUTHENTICATION_MS_MIN = 1000  # a client may not log in again more often


RunAside = Callable[[Callable[[], Any], Callable[[Any], None]], None]  # a job, and what gets its result


def _run_here(job: Callable[[], Any], done: Callable[[Any], None]) -> None:
    done(job())


@frozen
class Login:
    """What a listener asks of its clients. `mechanisms` begins an exchange by the mechanism's name."""

    mechanisms: Mapping[str, Callable[[], Exchange]]
    session_ms_max: int = 0  # connections.max.reauth.ms; 0: a login lasts as long as its connection
    session_ms_by_mechanism: Mapping[str, int] = field(default_factory=dict)  # where a mechanism has its own
    failure_delay_ms: int = 100  # connection.failed.authentication.delay.ms
    run_aside: RunAside = _run_here


class Answer(Protocol):
    def answer(self, buffers: list[Buffer]) -> None: ...


class _Step(Enum):
    HANDSHAKE = auto()
    TOKENS = auto()
    DONE = auto()


class Authentication:
    """`on_frame` says whether it took the frame; what it does not take is for the dispatcher."""

    def __init__(
        self,
        login: Login,
        clock: Clock,
        client: Client,
        close: Callable[[str], None],
        counts: Counter[str] | None = None,
    ) -> None:
        self._login, self._clock, self._client, self._close = login, clock, client, close
        self._counts: Counter[str] = Counter() if counts is None else counts
        self._step = _Step.HANDSHAKE
        self._exchange: Exchange | None = None
        self._mechanism = ""
        self._are_bare = False
        self._session_ends_ms: int | None = None  # on the monotonic clock
        self._logged_in_ms = 0
        self.was_done = False  # it has logged in once; it may be about to do so again

    @property
    def is_done(self) -> bool:
        return self._step is _Step.DONE

    def on_frame(self, frame: Buffer, slot: Answer) -> bool:
        if self._step is _Step.TOKENS and self._are_bare:
            self._client.work.spend(REQUEST_UNITS)
            self._on_bare_token(bytes(frame), slot)
            return True
        try:
            header, position = read_request_header(frame)
            if header.api_key not in (HANDSHAKE, AUTHENTICATE):
                return self._on_other(header)
            self._client.work.spend(REQUEST_UNITS)
            request = _body(header, frame, position)
        except ProtocolError as error:
            self._close(f"{self._client.host}:{self._client.port}: {error}")
            return True
        if isinstance(request, SaslHandshakeRequest):
            self._on_handshake(request, header, slot)
        else:
            self._on_token(request.auth_bytes, header, slot)
        return True

    def _on_other(self, header: RequestHeader) -> bool:
        """ApiVersions is for everybody; the rest is for clients whose session has not ended."""
        if header.api_key == API_VERSIONS and self._step is not _Step.DONE:
            return False
        if self._step is not _Step.DONE:
            self._close(f"{self._address}: a request of API {header.api_key} before it has authenticated")
            return True
        if self._session_ends_ms is not None and self._clock.monotonic_ms() >= self._session_ends_ms:
            self._close(f"{self._address}: the session of {self._client.principal} has expired")
            return True
        return False

    # -- the steps ---------------------------------------------------------------------------------------

    def _on_handshake(self, request: SaslHandshakeRequest, header: RequestHeader, slot: Answer) -> None:
        offered = sorted(self._login.mechanisms)
        refusal = self._refuse_handshake(request.mechanism)
        if refusal is not None:
            self._answer(header, slot, SaslHandshakeResponse(error_code=refusal.code, mechanisms=offered))
            self._close(f"{self._address}: {refusal.message}")
            return
        self._mechanism = request.mechanism
        self._exchange = self._login.mechanisms[request.mechanism]()
        next(self._exchange)
        self._step, self._are_bare = _Step.TOKENS, header.api_version == BARE_TOKENS
        self._answer(header, slot, SaslHandshakeResponse(mechanisms=offered))

    def _refuse_handshake(self, mechanism: str) -> ProtocolError | None:
        if mechanism not in self._login.mechanisms:
            return UnsupportedSaslMechanism(f"the listener does not offer the SASL mechanism {mechanism!r}")
        if self._step is _Step.TOKENS:
            return IllegalSaslState("a second SaslHandshake in the middle of a login")
        if self._step is _Step.HANDSHAKE:
            return None
        if self._session_ends_ms is None:
            return IllegalSaslState("the client has authenticated already")
        if mechanism != self._mechanism:
            return IllegalSaslState(
                f"the client logged in with {self._mechanism}, and again with {mechanism}"
            )
        if self._clock.monotonic_ms() - self._logged_in_ms < REAUTHENTICATION_MS_MIN:
            return IllegalSaslState("the client logs in again too soon")
        return None

    def _on_token(self, token: Buffer, header: RequestHeader, slot: Answer) -> None:
        if self._step is not _Step.TOKENS:
            refusal = IllegalSaslState("SaslAuthenticate without a SaslHandshake before it")
            self._answer(header, slot, _failed(refusal))
            self._close(f"{self._address}: {refusal.message}")
            return

        def answer(reply: bytes | None, lifetime_ms: int) -> None:
            response = SaslAuthenticateResponse(auth_bytes=reply or b"", session_lifetime_ms=lifetime_ms)
            self._answer(header, slot, response)

        def refuse(error: SaslAuthenticationFailed) -> None:
            self._fail(error, lambda: self._answer(header, slot, _failed(error)))

        self._advance(bytes(token), answer, refuse)

    def _on_bare_token(self, token: bytes, slot: Answer) -> None:
        def answer(reply: bytes | None, lifetime_ms: int) -> None:
            slot.answer([] if reply is None else [LENGTH.pack(len(reply)) + reply])

        def refuse(error: SaslAuthenticationFailed) -> None:
            self._fail(error, lambda: None)  # there is no way to say why

        self._advance(token, answer, refuse)

    def _advance(
        self,
        message: Any,
        answer: Callable[[bytes | None, int], None],
        refuse: Callable[[SaslAuthenticationFailed], None],
    ) -> None:
        """The next message of the mechanism, and once the client is known how long its session lasts; later if the
        mechanism has work for a thread."""
        if self._exchange is None:
            return
        try:
            step = self._exchange.send(message)
        except StopIteration as end:
            self._end(end.value, answer, refuse)
        except SaslAuthenticationFailed as error:
            refuse(error)
        except Exception:  # a bug of ours: nobody gets in by it
            logger.exception("%s failed with a message of %s", self._mechanism, self._address)
            refuse(SaslAuthenticationFailed("Authentication failed"))
        else:
            if isinstance(step, Aside):
                self._login.run_aside(step.job, lambda result: self._advance(result, answer, refuse))
            else:
                answer(step, 0)

    def _end(
        self,
        who: Authenticated,
        answer: Callable[[bytes | None, int], None],
        refuse: Callable[[SaslAuthenticationFailed], None],
    ) -> None:
        try:
            lifetime_ms = self._on_authenticated(who)
        except SaslAuthenticationFailed as error:
            refuse(error)
        else:
            answer(who.last_message, lifetime_ms)

    def _on_authenticated(self, who: Authenticated) -> int:
        if self._session_ends_ms is not None and who.principal != self._client.principal:
            raise SaslAuthenticationFailed("Cannot change principals during re-authentication")
        lifetime_ms = self._lifetime_ms(who)
        self._logged_in_ms = self._clock.monotonic_ms()
        self._session_ends_ms = self._logged_in_ms + lifetime_ms if lifetime_ms else None
        self._client.principal, self._client.rights_under = who.principal, None
        self._client.token_id = who.token_id
        self._step, self._exchange = _Step.DONE, None
        self.was_done = True
        self._counts[LOGINS] += 1
        return lifetime_ms

    def _lifetime_ms(self, who: Authenticated) -> int:
        """0 is without an end."""
        longest = self._login.session_ms_by_mechanism.get(self._mechanism, self._login.session_ms_max)
        if who.expires_ms is None:
            return longest
        left_ms = who.expires_ms - self._clock.now_ms()
        if left_ms <= 0:
            raise SaslAuthenticationFailed("Authentication failed: the credential has expired")
        return min(left_ms, longest) if longest else left_ms

    # -- answers -----------------------------------------------------------------------------------------

    def _fail(self, error: SaslAuthenticationFailed, answer: Callable[[], None]) -> None:
        """Answers after a delay, so that passwords cannot be tried at the speed of the network."""
        self._exchange = None
        self._counts[FAILED_LOGINS] += 1
        logger.warning(
            "failed login from %s with %s: %s",
            self._address,
            self._mechanism,
            error.message,
            extra={"fields": {"client": self._address, "mechanism": self._mechanism}},
        )

        def leave() -> None:
            answer()
            self._close(f"{self._address}: it could not authenticate")

        self._clock.call_later(self._login.failure_delay_ms, leave)

    def _answer(self, header: RequestHeader, slot: Answer, response: Message) -> None:
        slot.answer(
            encode(APIS[header.api_key], header.api_version, header.correlation_id, response).buffers()
        )

    @property
    def _address(self) -> str:
        return f"{self._client.host}:{self._client.port}"


def _failed(error: ProtocolError) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error.code, error_message=error.message, auth_bytes=b"")


def _body(header: RequestHeader, frame: Buffer, position: int) -> Any:
    api = APIS[header.api_key]
    if not api.version_min <= header.api_version <= api.version_max:
        raise IllegalSaslState(f"{api.name} version {header.api_version} is not served")
    if header.api_version >= api.flexible_from:
        position = skip_tags(frame, position)
    request, *_ = codec.read_bounded(api.request(), header.api_version, frame, position, elements_max=16)
    return request
