"""The transaction coordinator among lossy clients and kills; and planted bugs, each of which must be noticed for
what it is."""

from collections import Counter
from functools import partial

import pytest

from ottla.coordination.transactions import ending, producers, transaction
from ottla.errors import ConcurrentTransactions, ProducerFenced
from ottla.testing.histories import Outcome
from ottla.testing.histories.ops import What
from tests.simulation.planted import assert_caught
from tests.simulation.transaction_clients import Story
from tests.simulation.transaction_mutants import MUTANTS

SEEDS_FOR_A_MUTANT = 40


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_committed_is_there_and_nothing_else(seed, version):
    story = Story(seed, version)
    story.run()
    assert story.kills > 1


@pytest.mark.parametrize("seed", range(8))
def test_producer_ids_change_in_the_middle_when_epochs_run_out(seed, short_epochs):
    story = Story(seed, 2)
    story.run()
    assert story.ids.next > 105


@pytest.fixture
def short_epochs(monkeypatch):
    for module in (transaction, ending):
        monkeypatch.setattr(module, "EPOCH_LAST_USABLE", 4)
    for module in (producers, ending):
        monkeypatch.setattr(module, "EPOCH_MAX", 5)


def test_the_seeds_see_commits_aborts_fencing_and_unknown_outcomes():
    """What the runs above go through: a world without trouble would prove nothing."""
    seen: Counter[tuple[What, Outcome]] = Counter()
    codes: Counter[int] = Counter()
    for seed in range(6):
        story = Story(seed, 2)
        story.run()
        seen += Counter((op.what, op.outcome) for op in story.ops)
        codes += story.codes
    assert seen[What.COMMIT, Outcome.OK] > 200
    assert seen[What.ABORT, Outcome.OK] > 20
    assert seen[What.COMMIT, Outcome.FAIL] + seen[What.COMMIT, Outcome.UNKNOWN] > 5
    assert seen[What.SEND, Outcome.UNKNOWN] > 20
    assert codes[ConcurrentTransactions.code] > 50
    assert codes[ProducerFenced.code] > 5


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_planted_bug_is_caught_for_what_it_is(name, monkeypatch):
    worlds = (partial(Story, seed, version) for seed in range(SEEDS_FOR_A_MUTANT) for version in (2, 1))
    assert_caught(MUTANTS[name], monkeypatch, worlds)
