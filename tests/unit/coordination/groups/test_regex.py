"""Patterns over the names of topics: each name is matched once."""

import pytest

from ottla.coordination.groups.regex import PATTERNS_MAX, Patterns, check
from ottla.errors import InvalidRegularExpression


def test_only_new_names_are_asked_about():
    patterns = Patterns()
    assert patterns.resolve("a.*", frozenset({"a1", "b1", "a2"})) == ("a1", "a2")
    names = frozenset({"a2", "b1", "a3"})
    question = patterns.question("a.*", names)
    assert question is not None
    assert question.new == ("a3",)
    patterns.learn(question, question.answer())
    assert patterns.question("a.*", names) is None
    assert patterns.resolve("a.*", names) == ("a2", "a3")


def test_the_same_names_are_kept_once():
    patterns = Patterns()
    first = patterns.snapshot(["a", "b"])
    assert patterns.snapshot({"b": 1, "a": 2}) is first
    assert patterns.snapshot(["a"]) is not first


def test_answers_of_patterns_that_nobody_uses_go():
    patterns = Patterns()
    names = frozenset({"a"})
    patterns.resolve("a", names)
    for number in range(PATTERNS_MAX):
        patterns.resolve(f"a{number}", names)
    assert patterns.question("a", names) is not None
    assert patterns.question("a7", names) is None
    assert patterns.resolve("a", names) == ("a",)


def test_a_pattern_that_would_take_much_memory_is_refused():
    with pytest.raises(InvalidRegularExpression):
        check("(.?){1000}x", 4_096)
    check("|".join(f"orders-{number}" for number in range(300)), 4_096)
