"""Subscriptions by pattern: RE2, whose time is linear in the input; each name is matched once for each pattern.

Linear is not short: a pattern of a few hundred bytes can take milliseconds for a long name. So a broker asks the
questions that are open in a thread before it lets the group decide, and the group finds the answers here.
"""

from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from ottla.errors import InvalidRegularExpression
from ottla.patterns import BadPattern, Pattern, compile_pattern

PATTERNS_MAX = 256  # whose answers are kept


class Question(NamedTuple):
    """Which of these names does the pattern fit? `names` are all there are, `new` those not asked about before."""

    pattern: str
    names: frozenset[str]
    new: tuple[str, ...]

    def answer(self) -> frozenset[str]:
        compiled = _compiled(self.pattern)
        return frozenset(name for name in self.new if compiled.fullmatch(name))


class _Answers(NamedTuple):
    names: frozenset[str]
    fitting: frozenset[str]


class Patterns:
    """What is known about patterns and the names of topics. Names are kept once for all patterns."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, _Answers] = OrderedDict()
        self._names: frozenset[str] = frozenset()

    def snapshot(self, names: Iterable[str]) -> frozenset[str]:
        """The names as one object, the same as before while they are the same."""
        now = frozenset(names)
        if now != self._names:
            self._names = now
        return self._names

    def resolve(self, pattern: str, names: frozenset[str]) -> tuple[str, ...]:
        """The topics whose whole name fits."""
        question = self.question(pattern, names)
        if question is not None:
            self.learn(question, question.answer())
        self._answers.move_to_end(pattern)
        return tuple(sorted(self._answers[pattern].fitting))

    def question(self, pattern: str, names: frozenset[str]) -> Question | None:
        """What is still to be asked; None when all is known."""
        known = self._answers.get(pattern)
        if known is None:
            return Question(pattern, names, tuple(names))
        if known.names is names or known.names == names:
            return None
        return Question(pattern, names, tuple(names - known.names))

    def learn(self, question: Question, fitting: frozenset[str]) -> None:
        known = self._answers.get(question.pattern)
        before = known.fitting if known is not None else frozenset()
        self._answers[question.pattern] = _Answers(question.names, (before | fitting) & question.names)
        if len(self._answers) > PATTERNS_MAX:
            self._answers.popitem(last=False)


def check(pattern: str, length_max: int) -> None:
    if len(pattern) > length_max:
        raise InvalidRegularExpression(f"The regular expression has more than {length_max} characters.")
    _compiled(pattern)


@lru_cache(maxsize=PATTERNS_MAX)
def _compiled(pattern: str) -> Pattern:
    try:
        return compile_pattern(pattern)
    except BadPattern as error:
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}."
        ) from error
