"""Blocks of producer ids: a question that could not be asked does not leave others waiting for its answer."""

from typing import cast

import pytest

from ottla.broker.cluster.channel import ControllerChannel
from ottla.broker.transactions.producer_ids import ProducerIds
from ottla.metadata.image import Image
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse


class Channel:
    """Fails the first time, answers the second."""

    def __init__(self):
        self.asked = 0

    def ask(self, request, version, answer, lane):
        self.asked += 1
        if self.asked == 1:
            raise SystemError("planted")
        answer(AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=2))


def test_after_a_question_that_failed_the_next_one_is_asked():
    answers: list = []
    ids = ProducerIds(1, Image(), cast(ControllerChannel, Channel()))
    with pytest.raises(SystemError):
        ids.when_filled(answers.append)
    ids.when_filled(answers.append)
    assert answers == [None] and ids.next_producer_id() == 1000
