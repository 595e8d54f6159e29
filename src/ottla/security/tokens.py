"""Delegation tokens: a name and a secret that stand for their owner until they expire. Decisions as Kafka's controller.

A token's secret is derived from its id and a key that all brokers have: no record holds it.
"""

import base64
import hmac
from collections import OrderedDict
from collections.abc import Callable, Sequence

from ottla import errors
from ottla.frozen import frozen
from ottla.metadata.decision import Decision
from ottla.metadata.image import Image
from ottla.metadata.records import Record, TokenRemoved, TokenSet
from ottla.security.scram import ITERATIONS_MIN, Credential, Found, credential_of

USER_TYPE = "User"
TOKENS_MAX = 100_000
LOGINS_MAX = 10_000  # whose keys are remembered


@frozen
class Terms:
    """How long tokens live: delegation.token.max.lifetime.ms and .expiry.time.ms."""

    lifetime_ms_max: int
    renewal_ms: int


def principals_of(token: TokenSet) -> tuple[str, ...]:
    """Who may renew, expire and see the token."""
    return token.owner, token.requester, *token.renewers


def is_of(token: TokenSet, principal: str) -> bool:
    return principal in principals_of(token)


class Tokens:
    """The tokens of the metadata log, by id and by secret; and logins with them.

    SCRAM with a token: its id is the name, its secret the password, its owner the principal. The keys for it are
    derived at its first login, which takes milliseconds, and remembered. Only a client that knows a token's id,
    which is random, can have them derived.
    """

    def __init__(self, image: Image, secret_key: str, terms: Terms, new_salt: Callable[[], bytes]) -> None:
        self.terms = terms
        self._known, self._secret_key, self._new_salt = image.security.tokens, secret_key, new_salt
        self._ids = {self.secret(token_id): token_id for token_id in self._known}
        self._credentials: OrderedDict[tuple[str, str], Credential] = OrderedDict()
        image.watch(self._on_record)

    def secret(self, token_id: str) -> bytes:
        return hmac.digest(self._secret_key.encode(), token_id.encode(), "sha512")

    def token(self, secret: bytes) -> TokenSet:
        token = self._known.get(self._ids.get(secret, ""))
        if token is None:
            raise errors.DelegationTokenNotFound
        return token

    def login(self, digest: str, token_id: str) -> Found | None:
        token = self._known.get(token_id)
        if token is None:
            return None
        return Found(self._credential(digest, token_id), token.owner, token.expiry_ms, token_id)

    def _credential(self, digest: str, token_id: str) -> Credential:
        key = digest, token_id
        known = self._credentials.get(key)
        if known is None:
            password = base64.b64encode(self.secret(token_id)).decode()
            known = credential_of(digest, password, self._new_salt(), ITERATIONS_MIN)
            self._credentials[key] = known
            if len(self._credentials) > LOGINS_MAX:
                self._credentials.popitem(last=False)
        return known

    def _on_record(self, record: Record) -> None:
        if isinstance(record, TokenSet):
            self._ids[self.secret(record.token_id)] = record.token_id
        elif isinstance(record, TokenRemoved):
            self._ids.pop(self.secret(record.token_id), None)


# -- decisions -----------------------------------------------------------------------------------------------


@frozen
class NewToken:
    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    lifetime_ms: int  # not positive: as long as it may be


def create(new: NewToken, terms: Terms, image: Image, now_ms: int) -> Decision[TokenSet]:
    if len(image.security.tokens) >= TOKENS_MAX:
        raise errors.PolicyViolation(f"There may be no more than {TOKENS_MAX} delegation tokens.")
    lifetime_ms = terms.lifetime_ms_max
    if new.lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, new.lifetime_ms)
    ends_ms = now_ms + lifetime_ms
    expires_ms = min(ends_ms, now_ms + terms.renewal_ms)
    token = TokenSet(new.token_id, new.owner, new.requester, new.renewers, now_ms, expires_ms, ends_ms)
    return Decision((token,), token)


def renew(token: TokenSet, principal: str, period_ms: int, terms: Terms, now_ms: int) -> Decision[int]:
    """Until when the token is good."""
    if is_over(token, now_ms):
        raise errors.DelegationTokenExpired
    _check_owner(token, principal)
    longest_ms = min(terms.renewal_ms, period_ms) if period_ms > 0 else terms.renewal_ms
    return _until(token, now_ms + longest_ms)


def expire(token: TokenSet, principal: str, period_ms: int, now_ms: int) -> Decision[int]:
    """At once if the period is negative."""
    _check_owner(token, principal)
    if period_ms < 0:
        return Decision((TokenRemoved(token.token_id),), now_ms)
    if is_over(token, now_ms):
        raise errors.DelegationTokenExpired
    return _until(token, now_ms + period_ms)


def remove_expired(image: Image, now_ms: int, at_most: int) -> Decision[int]:
    """How many were removed."""
    over = [token_id for token_id, token in image.security.tokens.items() if is_over(token, now_ms)]
    records: Sequence[Record] = [TokenRemoved(token_id) for token_id in over[:at_most]]
    return Decision(tuple(records), len(records))


def is_over(token: TokenSet, now_ms: int) -> bool:
    return token.max_ms < now_ms or token.expiry_ms < now_ms


def _check_owner(token: TokenSet, principal: str) -> None:
    if not is_of(token, principal):
        raise errors.DelegationTokenOwnerMismatch


def _until(token: TokenSet, expires_ms: int) -> Decision[int]:
    expires_ms = min(token.max_ms, expires_ms)
    changed = TokenSet(
        token.token_id,
        token.owner,
        token.requester,
        token.renewers,
        token.issue_ms,
        expires_ms,
        token.max_ms,
    )
    return Decision((changed,), expires_ms)


def checked_principals(kinds_and_names: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Of renewers: only users may be."""
    for kind, _ in kinds_and_names:
        if kind != USER_TYPE:
            raise errors.InvalidPrincipalType
    return tuple(f"{kind}:{name}" for kind, name in kinds_and_names)
