"""Delegation tokens: how long they live, who may touch them, and what their secrets are."""

import base64
import hashlib
import hmac

import pytest

from ottla import errors
from ottla.client.loop import security as client
from ottla.metadata.image import Image
from ottla.metadata.records import TokenRemoved, TokenSet
from ottla.security import tokens
from ottla.security.scram import scram
from ottla.security.tokens import NewToken, Terms, Tokens

TERMS = Terms(lifetime_ms_max=1000, renewal_ms=100)
ALICE, BOB, CAROL, DAVE = (f"User:{name}" for name in ("alice", "bob", "carol", "dave"))


def created(image, lifetime_ms=-1, now_ms=0, token_id="t"):
    decision = tokens.create(NewToken(token_id, ALICE, CAROL, (BOB,), lifetime_ms), TERMS, image, now_ms)
    for record in decision.records:
        image.apply_entry(image.position + 1, [record])
    return decision.answer


@pytest.mark.parametrize(
    ("lifetime_ms", "expires_ms", "ends_ms"),
    [(-1, 107, 1007), (0, 107, 1007), (50, 57, 57), (9999, 107, 1007)],
)
def test_a_token_lives_no_longer_than_it_may(lifetime_ms, expires_ms, ends_ms):
    token = created(Image(), lifetime_ms, now_ms=7)
    assert (token.issue_ms, token.expiry_ms, token.max_ms) == (7, expires_ms, ends_ms)


@pytest.mark.parametrize("principal", [ALICE, BOB, CAROL])
def test_owner_requester_and_renewers_go_on_with_it_to_its_end(principal):
    token = created(Image())
    assert tokens.renew(token, principal, -1, TERMS, 50).answer == 150
    assert tokens.renew(token, principal, 20, TERMS, 50).answer == 70
    assert tokens.renew(token, principal, 99_999, TERMS, 50).answer == 150
    old = TokenSet("t", ALICE, CAROL, (BOB,), 0, 990, 1000)
    assert tokens.renew(old, principal, -1, TERMS, 980).answer == 1000


def test_nobody_else_touches_it_and_what_is_over_is_over():
    token = created(Image())
    for change in (
        lambda: tokens.renew(token, DAVE, -1, TERMS, 0),
        lambda: tokens.expire(token, DAVE, -1, 0),
    ):
        with pytest.raises(errors.DelegationTokenOwnerMismatch):
            change()
    with pytest.raises(errors.DelegationTokenExpired):
        tokens.renew(token, ALICE, -1, TERMS, 101)
    with pytest.raises(errors.DelegationTokenExpired):
        tokens.expire(token, ALICE, 5, 101)
    assert tokens.expire(token, ALICE, -1, 101).records == (TokenRemoved("t"),)
    assert tokens.expire(token, ALICE, 5, 50).answer == 55


def test_expired_tokens_are_removed_a_few_at_a_time():
    image = Image()
    for number in range(5):
        created(image, now_ms=number * 100, token_id=str(number))
    assert tokens.remove_expired(image, 350, at_most=2).records == (TokenRemoved("0"), TokenRemoved("1"))
    assert tokens.remove_expired(image, 350, at_most=9).answer == 3


def known(image):
    return Tokens(image, "key", TERMS, lambda: b"salt")


def test_the_secret_is_kafkas_and_finds_its_token_until_that_is_removed():
    image = Image()
    before = created(image, token_id="before")
    all_tokens = known(image)
    after = created(image, token_id="after")
    assert all_tokens.secret("after") == hmac.new(b"key", b"after", hashlib.sha512).digest()
    assert all_tokens.token(all_tokens.secret("before")) == before
    assert all_tokens.token(all_tokens.secret("after")) == after
    image.apply_entry(image.position + 1, [TokenRemoved("after")])
    with pytest.raises(errors.DelegationTokenNotFound):
        all_tokens.token(all_tokens.secret("after"))


@pytest.mark.parametrize("digest", ["sha256", "sha512"])
def test_who_knows_the_secret_logs_in_as_the_owner(digest):
    image = Image()
    created(image)
    all_tokens = known(image)

    def login(name, password, *, is_token=True):
        server = scram(digest, lambda each, token: all_tokens.login(digest, each) if token else None, "nonce")
        next(server)
        ours = client.scram(digest, name, password, is_token=is_token)
        message = next(ours)
        while True:
            try:
                reply = server.send(message)
                assert isinstance(reply, bytes)
                message = ours.send(reply)
            except StopIteration as end:
                return end.value

    secret = base64.b64encode(all_tokens.secret("t")).decode()
    found = login("t", secret)
    assert (found.principal, found.expires_ms, found.token_id) == (ALICE, 100, "t")
    for wrong in (("t", "no"), ("no", secret)):
        with pytest.raises(errors.SaslAuthenticationFailed):
            login(*wrong)
    with pytest.raises(errors.SaslAuthenticationFailed):
        login("t", secret, is_token=False)
