"""Large requests part by part: the same answers as of one request."""

from typing import Any, cast

import pytest

from ottla.broker.requests.parts import PART_ELEMENTS, SPLITS, in_parts
from ottla.broker.requests.refusals import refusal_of_parts
from ottla.broker.routes import ROUTES
from ottla.broker.waits import Running
from ottla.errors import NotController, PolicyViolation, ProtocolError
from ottla.wire.messages import BY_NAME
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.schema import covers


class Paced:
    """What a handler has of its context here."""

    def __init__(self):
        self.steps = 0

    async def pace(self, units):
        self.steps += 1


def as_told(error):
    assert isinstance(error, ProtocolError)
    return error


def answered(name, handler, request):
    api = BY_NAME[name]
    context, results = Paced(), []
    split = in_parts(
        name, handler, lambda part, error: refusal_of_parts(api, api.version_max, part, as_told(error))
    )
    Running(cast(Any, split(request, context)), lambda result, error: results.append(error or result)).step()
    (result,) = results
    return result, context.steps


def deleting(failing=()):
    """Answers for each topic; a request that names one of `failing` fails as a whole."""
    sizes = []

    async def handler(request, context):
        sizes.append(len(request.topics))
        for topic in request.topics:
            if topic.name in failing:
                raise PolicyViolation("not today")
        return DeleteTopicsResponse(
            responses=[DeletableTopicResult(name=each.name) for each in request.topics]
        )

    return handler, sizes


@pytest.mark.parametrize("count", [1, PART_ELEMENTS, PART_ELEMENTS + 1, 10 * PART_ELEMENTS + 3])
def test_every_thing_is_answered_once_and_no_part_is_large(count):
    handler, sizes = deleting()
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=f"t-{at}") for at in range(count)])
    result, steps = answered("DeleteTopics", handler, request)
    assert [each.name for each in result.responses] == [f"t-{at}" for at in range(count)]
    assert max(sizes) <= PART_ELEMENTS
    assert steps == (len(sizes) if count > PART_ELEMENTS else 0)


def test_what_is_named_twice_is_in_one_part():
    handler, _sizes = deleting()
    names = [f"t-{at}" for at in range(PART_ELEMENTS)]
    seen = []

    async def noting(request, context):
        seen.append([each.name for each in request.topics])
        return await handler(request, context)

    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in (*names, *names)])
    answered("DeleteTopics", noting, request)
    assert len(seen) > 1
    assert all(part.count(name) == 2 for part in seen for name in part)


def test_a_part_that_fails_is_refused_and_the_others_keep_their_answers():
    handler, sizes = deleting(failing={"t-7"})
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=f"t-{at}") for at in range(3 * PART_ELEMENTS)]
    )
    result, _ = answered("DeleteTopics", handler, request)
    codes = [each.error_code for each in result.responses]
    assert codes == [PolicyViolation.code] * PART_ELEMENTS + [0] * 2 * PART_ELEMENTS
    assert sizes == [PART_ELEMENTS] * 3


def test_the_partitions_of_a_topic_come_back_in_one_entry():
    async def handler(request, context):
        return AlterPartitionReassignmentsResponse(
            responses=[
                ReassignableTopicResponse(
                    name=topic.name,
                    partitions=[
                        ReassignablePartitionResponse(partition_index=each.partition_index)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    sizes = {"a": 3, "b": 4 * PART_ELEMENTS + 1, "c": 0, "d": PART_ELEMENTS}
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name, partitions=[ReassignablePartition(partition_index=at) for at in range(size)]
            )
            for name, size in sizes.items()
        ]
    )
    result, steps = answered("AlterPartitionReassignments", handler, request)
    found = {topic.name: [each.partition_index for each in topic.partitions] for topic in result.responses}
    assert found == {name: list(range(size)) for name, size in sizes.items()}
    assert [topic.name for topic in result.responses] == list(sizes)
    assert steps >= 5


def test_an_error_of_the_whole_request_is_the_answer():
    async def handler(request, context):
        return AlterPartitionReassignmentsResponse(error_code=NotController.code)

    topic = ReassignableTopic(
        name="t", partitions=[ReassignablePartition() for _ in range(2 * PART_ELEMENTS)]
    )
    result, _ = answered(
        "AlterPartitionReassignments", handler, AlterPartitionReassignmentsRequest(topics=[topic])
    )
    assert result == AlterPartitionReassignmentsResponse(error_code=NotController.code)


def test_no_more_partitions_are_created_than_one_request_may():
    async def handler(request, context):
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=each.name) for each in request.topics])

    topics = [CreatableTopic(name=f"t-{at}", num_partitions=10, replication_factor=1) for at in range(1500)]
    result, _ = answered("CreateTopics", handler, CreateTopicsRequest(topics=topics))
    assert [each.error_code for each in result.topics] == [0] * 1000 + [PolicyViolation.code] * 500


@pytest.mark.parametrize("name", SPLITS)
def test_the_table_names_lists_of_the_messages(name):
    route = next(route for route in ROUTES.values() if route.api.name == name)
    split = SPLITS[name]

    def lists(cls, version):
        return {
            field.name: field.kind for field in cls.FIELDS if field.array and covers(field.versions, version)
        }

    assert split.answers in lists(route.api.response(), route.version_max)
    things = lists(route.request, route.version_max)
    assert split.asked in things
    assert not split.nested or split.nested in lists(things[split.asked], route.version_max)
    if split.asked_before:
        assert split.asked_before in lists(route.request, route.version_min)
