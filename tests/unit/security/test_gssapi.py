"""The server's half of GSSAPI on a library that only pretends; a real KDC is in tests/kerberos."""

import pytest

from ottla.errors import InvalidConfig, SaslAuthenticationFailed
from ottla.security.gssapi import TOKENS_MAX, GssFailed, gssapi
from ottla.security.kerberos_names import LocalNames, NoLocalName

NAMES = LocalNames("", "CARE.TEST")


class Pretended:
    """A context that is complete after `steps` tokens; "wrapped" messages are in brackets."""

    def __init__(self, steps=1, client="alice@CARE.TEST", last=b""):
        self.steps, self.client, self.last = steps, client, last
        self.is_complete = False

    def step(self, token):
        if token == b"bad":
            raise GssFailed("no such ticket")
        self.steps -= 1
        self.is_complete = self.steps == 0
        return self.last if self.is_complete else b"more"

    def wrap(self, message):
        return b"[" + message + b"]"

    def unwrap(self, message):
        if message[:1] + message[-1:] != b"[]":
            raise GssFailed("not wrapped")
        return message[1:-1]


def says(context, *messages, names=NAMES):
    """What the broker answers to each message; the last is the principal, or the words of a refusal."""
    exchange = gssapi(lambda: context, names)
    next(exchange)
    answers = []
    for message in messages:
        try:
            answers.append(exchange.send(message))
        except StopIteration as end:
            assert end.value.last_message is None
            return [*answers, end.value.principal]
        except SaslAuthenticationFailed as error:
            return [*answers, error.message]
    return answers


REFUSAL = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
OFFER = b"[\x01\0\0\0]"


def test_a_ticket_and_a_choice_of_no_layer_log_the_client_in():
    assert says(Pretended(), b"ticket", b"[\x01\0\0\0]") == [OFFER, "User:alice"]


def test_the_broker_proves_itself_before_it_offers_layers():
    context = Pretended(last=b"proof")
    assert says(context, b"ticket", b"", b"[\x01\0\0\0]") == [b"proof", OFFER, "User:alice"]


def test_a_word_between_the_proof_and_the_offer_is_refused():
    assert says(Pretended(last=b"proof"), b"ticket", b"wait") == [b"proof", REFUSAL]


def test_a_name_to_act_as_is_ignored():
    assert says(Pretended(), b"ticket", b"[\x01\0\0\0root]") == [OFFER, "User:alice"]


@pytest.mark.parametrize("choice", [b"[\x02\0\0\0]", b"[\x03\0\0\0]", b"[\x01]", b"[]", b"plain", b""])
def test_another_layer_or_none_at_all_is_refused(choice):
    assert says(Pretended(), b"ticket", choice) == [OFFER, REFUSAL]


def test_why_a_ticket_is_refused_is_not_for_the_client():
    assert says(Pretended(), b"bad") == [REFUSAL]


def test_a_library_that_cannot_begin_refuses_the_login_and_not_the_connection():
    def fail():
        raise GssFailed("the keytab is gone")

    exchange = gssapi(fail, NAMES)
    assert next(exchange) == b""
    with pytest.raises(SaslAuthenticationFailed):
        exchange.send(b"ticket")


def test_an_exchange_of_tokens_has_an_end():
    answers = says(Pretended(steps=1000), *[b"token"] * (TOKENS_MAX + 1))
    assert answers == [*[b"more"] * TOKENS_MAX, REFUSAL]


def test_a_principal_that_stands_for_nobody_is_refused():
    assert says(Pretended(client="alice@ELSEWHERE"), b"ticket", b"[\x01\0\0\0]") == [OFFER, REFUSAL]


def test_the_default_takes_the_first_component_of_its_own_realm():
    names = LocalNames("DEFAULT", "CARE.TEST")
    assert names.name("alice@CARE.TEST") == "alice"
    assert names.name("kafka/host@CARE.TEST") == "kafka"
    assert names.name("alice") == "alice"
    for other in ("alice@ELSEWHERE", "a@b@c", "a/b/c@CARE.TEST"):
        with pytest.raises(NoLocalName):
            names.name(other)


@pytest.mark.parametrize(
    "rules", ["RULE", "RULE:[1:$1](", "DEFAULT DEFAULT", "RULE:[1:$1](*)", "RULE:[1:$1]s/(/x/"]
)
def test_a_rule_that_is_none_is_named(rules):
    with pytest.raises(InvalidConfig, match=r"sasl\.kerberos\.principal\.to\.local\.rules"):
        LocalNames(rules, "CARE.TEST")
