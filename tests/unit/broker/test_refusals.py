"""One error for a whole request: every API has words for it, in every version."""

import pytest

from ottla.broker.requests.refusals import refusal
from ottla.broker.requests.responses import encode
from ottla.broker.routes import ROUTES
from ottla.errors import PolicyViolation

VERSIONS = [
    (route.api, version)
    for route in ROUTES.values()
    for version in range(route.version_min, route.version_max + 1)
]


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=lambda each: getattr(each, "name", str(each)))
def test_every_request_can_be_refused_in_its_own_version(api, version):
    made = refusal(api, version, api.request()(), PolicyViolation("no"))
    assert encode(api, version, 1, made)


def test_a_refusal_names_what_was_asked_for():
    """A client finds its own thing by its name; without it an answer says nothing about it."""
    from ottla.wire.messages import APIS
    from ottla.wire.messages import alter_client_quotas as quotas
    from ottla.wire.messages import alter_replica_log_dirs as folders
    from ottla.wire.messages import alter_user_scram_credentials as users
    from ottla.wire.messages.delete_topics import DeleteTopicsRequest

    def refused(request, version):
        return refusal(APIS[request.API_KEY], version, request, PolicyViolation("no"))

    (topic,) = refused(DeleteTopicsRequest(topic_names=["t"]), 5).responses
    assert (topic.name, topic.error_code) == ("t", PolicyViolation.code)
    deletions = [users.ScramCredentialDeletion(name=name) for name in ("b", "a", "b")]
    upsertions = [users.ScramCredentialUpsertion(name="c")]
    request = users.AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    assert [result.user for result in refused(request, 0).results] == ["a", "b", "c"]
    topics = [folders.AlterReplicaLogDirTopic(name="t", partitions=[3])]
    moved = folders.AlterReplicaLogDirsRequest(dirs=[folders.AlterReplicaLogDir(path="/d", topics=topics)])
    (result,) = refused(moved, 2).results
    assert (result.topic_name, [part.partition_index for part in result.partitions]) == ("t", [3])
    assert [part.error_code for part in result.partitions] == [PolicyViolation.code]
    entity = [quotas.EntityData(entity_type="user", entity_name="a")]
    entry = quotas.EntryData(entity=entity)
    (answer,) = refused(quotas.AlterClientQuotasRequest(entries=[entry]), 1).entries
    assert [(part.entity_type, part.entity_name) for part in answer.entity] == [("user", "a")]
