"""ACL decisions beside Apache Kafka's StandardAuthorizer: random rules and questions, the same answers."""

import random
import subprocess

import pytest

from ottla.security.acls import Acl, Operation, PatternType, Permission, Question, ResourceType, Rules
from ottla.security.authorizer import StandardAuthorizer
from tests.oracle import programs

SAMPLES, QUESTIONS = 400, 25
TYPES = [each for each in ResourceType if each is not ResourceType.ANY]
OPERATIONS = [each for each in Operation if each not in (Operation.ANY, Operation.ALL)]
# Names that are prefixes of each other, so that rules meet.
NAMES = ["*", "a", "ab", "abc", "abd", "b", "ba", "hardcode", "hard", "h"]
PRINCIPALS = ["User:alice", "User:bob", "User:admin", "User:*", "Group:alice"]
HOSTS = ["127.0.0.1", "10.1.2.3", "*"]

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(programs.why_not_java() is not None, reason=str(programs.why_not_java())),
]


class RulesAndQuestions:
    def __init__(self, chance: random.Random) -> None:
        self.super_users = chance.choice([(), ("User:admin",)])
        self.allow_unruled = chance.random() < 0.5
        self.acls = {a_rule(chance) for _ in range(chance.randint(0, 12))}
        self.questions = [a_question(chance) for _ in range(QUESTIONS)]
        self.by_type = [
            (client(chance), host(chance), chance.choice(OPERATIONS), chance.choice(TYPES))
            for _ in range(QUESTIONS)
        ]

    def lines(self):
        yield "R", ";".join(self.super_users), str(self.allow_unruled).lower()
        for acl in self.acls:
            yield (
                "A",
                acl.resource_type.name,
                acl.name,
                acl.pattern.name,
                acl.principal,
                acl.host,
                acl.operation.name,
                acl.permission.name,
            )
        yield ("S",)
        for each in self.questions:
            yield "Q", each.principal, each.host, each.operation.name, each.resource_type.name, each.name
        for principal, address, operation, kind in self.by_type:
            yield "T", principal, address, operation.name, kind.name

    def answers(self):
        ours = StandardAuthorizer(Rules(self.acls), self.super_users, self.allow_unruled)
        yield from map(ours.allows, self.questions)
        for each in self.by_type:
            yield ours.allows_any(*each)


def client(chance):
    return chance.choice([each for each in PRINCIPALS if each != "User:*"])


def host(chance):
    return chance.choice([each for each in HOSTS if each != "*"])


def a_rule(chance):
    return Acl(
        chance.choice(TYPES),
        chance.choice(NAMES),
        chance.choice((PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED)),
        chance.choice(PRINCIPALS),
        chance.choice(HOSTS),
        chance.choice([Operation.ALL, *OPERATIONS, Operation.READ, Operation.WRITE]),
        chance.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
    )


def a_question(chance):
    name = chance.choice([each for each in NAMES if each != "*"])
    return Question(client(chance), host(chance), chance.choice(OPERATIONS), chance.choice(TYPES), name)


def kafkas_answers(samples):
    text = "".join("\t".join(line) + "\n" for sample in samples for line in sample.lines())
    done = subprocess.run(
        programs.command("Acls"), input=text, capture_output=True, text=True, timeout=120, check=True
    )
    return [line == "1" for line in done.stdout.split()]


def test_random_rules_decide_as_kafkas_authorizer_does():
    chance = random.Random(20261116)
    samples = [RulesAndQuestions(chance) for _ in range(SAMPLES)]
    ours = [answer for sample in samples for answer in sample.answers()]
    theirs = kafkas_answers(samples)
    assert len(ours) == len(theirs) == SAMPLES * QUESTIONS * 2
    different = [i for i, (our, their) in enumerate(zip(ours, theirs, strict=True)) if our != their]
    assert not different, _shown(
        samples[different[0] // (2 * QUESTIONS)], different[0] % (2 * QUESTIONS), theirs[different[0]]
    )
    assert 0.1 < sum(ours) / len(ours) < 0.9  # both answers are asked for


def _shown(sample, number, theirs):
    asked = (sample.questions + sample.by_type)[number]
    rules = list(map(str, sample.acls))
    return f"Kafka says {theirs} to {asked} under {sample.super_users} {sample.allow_unruled} {rules}"
