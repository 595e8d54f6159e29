"""The response that says one error for a whole request: for failures that no handler answers itself.

Most responses have an error code on top. The others carry one for each thing asked for, and mirror the
request: arrays for arrays, names for names.
"""

import logging
from typing import Any

from ottla.errors import NONE, OttlaError, ProtocolError, UnknownServerError
from ottla.wire.schema import Api, Field, Message, covers

logger = logging.getLogger("ottla.broker")

ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS, DESCRIBE_USER_SCRAM_CREDENTIALS = 43, 45, 50
ALTER_REPLICA_LOG_DIRS, ALTER_USER_SCRAM_CREDENTIALS = 34, 51
# On top and for each thing, as Kafka does.
SAID_TWICE = (ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS, DESCRIBE_USER_SCRAM_CREDENTIALS)


class CloseConnection(OttlaError):
    """The connection cannot go on; the message says why, for the log."""


def protocol_error(error: Exception, attempt: str) -> ProtocolError:
    """What the client is told of one part of its request that failed. The other parts keep their own answers.

    An expected error loses its traceback: the handler keeps the error, and the traceback the handler's frame. In
    such a cycle a refused batch and what it was unpacked to would stay until the collector runs."""
    if isinstance(error, ProtocolError):
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
    logger.error("%s failed", attempt, exc_info=error)
    return UnknownServerError()


def refusal(api: Api, version: int, request: Message, error: ProtocolError) -> Message:
    """On top of the response where there is a place for it, else for each thing asked for."""
    response = api.response()
    on_top = any(field.name == "error_code" and covers(field.versions, version) for field in response.FIELDS)
    refused = _mirror(_unfolded(request), response, error)
    if on_top and api.key not in SAID_TWICE:
        for field in response.FIELDS:
            if field.array and isinstance(field.kind, type):
                setattr(refused, field.name, [])
    _fill_in(refused, version)
    return refused


def refusal_of_parts(api: Api, version: int, request: Message, error: ProtocolError) -> Message:
    """For each thing asked for; the request as a whole has no error."""
    refused = _mirror(_unfolded(request), api.response(), error)
    for name, value in (("error_code", NONE), ("error_message", None)):
        if name in refused.__slots__:
            setattr(refused, name, value)
    _fill_in(refused, version)
    return refused


def _unfolded(request: Any) -> Message:
    """Two requests name their things elsewhere than their answers do: users in two lists, topics below folders. What
    they become here has the shape of the answer."""
    if request.API_KEY == ALTER_USER_SCRAM_CREDENTIALS:
        from ottla.wire.messages import alter_user_scram_credentials as users  # only for a refusal

        names = sorted({change.name for change in (*request.deletions, *request.upsertions)})
        results = [users.AlterUserScramCredentialsResult(user=name) for name in names]
        return users.AlterUserScramCredentialsResponse(results=results)
    if request.API_KEY == ALTER_REPLICA_LOG_DIRS:
        from ottla.wire.messages import alter_replica_log_dirs as folders

        topics = []
        for topic in (topic for folder in request.dirs for topic in folder.topics):
            parts = [
                folders.AlterReplicaLogDirPartitionResult(partition_index=index) for index in topic.partitions
            ]
            topics.append(folders.AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=parts))
        return folders.AlterReplicaLogDirsResponse(results=topics)
    return request  # type: ignore[no-any-return]


def _mirror(source: Message, kind: type[Message], error: ProtocolError) -> Message:
    target = kind()
    arrays = [getattr(source, f.name) for f in source.FIELDS if f.array and getattr(source, f.name)]
    for field in kind.FIELDS:
        if field.name in ("error_code", "partition_error_code"):
            setattr(target, field.name, error.code)
        elif field.name == "error_message":
            target.error_message = error.message  # type: ignore[attr-defined]
        elif field.array and isinstance(field.kind, type) and arrays and _carries_errors(field.kind):
            items = getattr(source, field.name, None) or arrays[0]
            setattr(target, field.name, [_mirror_item(item, field.kind, error) for item in items])
        elif field.name == "entity" and isinstance(field.kind, type):  # whose quota it is
            mirrored = [_mirror(part, field.kind, error) for part in getattr(source, "entity", ())]
            setattr(target, field.name, mirrored)
        elif not field.array and isinstance(field.kind, str):
            _copy(source, target, field)
    return target


def _fill_in(message: Message, version: int) -> None:
    """What may not be null in this version, and has nothing to say, is empty."""
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if value is None and not covers(field.nullable, version):
            if field.array:
                setattr(message, field.name, [])
            elif field.kind in ("string", "bytes", "records"):
                setattr(message, field.name, "" if field.kind == "string" else b"")
        for part in value if isinstance(value, list) else (value,):
            if isinstance(part, Message):
                _fill_in(part, version)


def _carries_errors(kind: type[Message]) -> bool:
    """Whether the error is told in here, or deeper down; brokers and endpoints are not part of a refusal."""
    return any(
        field.name in ("error_code", "partition_error_code")
        or (isinstance(field.kind, type) and _carries_errors(field.kind))
        for field in kind.FIELDS
    )


def _copy(source: Message, target: Message, field: Field) -> None:
    """A field of the same name, or a partition under its other name."""
    for name in (field.name, field.name.removesuffix("_index"), field.name + "_index"):
        if name in source.__slots__:
            setattr(target, field.name, getattr(source, name))
            return


def _mirror_item(item: object, kind: type[Message], error: ProtocolError) -> Message:
    if isinstance(item, Message):
        return _mirror(item, kind, error)
    copy = _mirror(Message(), kind, error)
    for field in kind.FIELDS:  # a bare name or number: the first field that can hold it
        is_error = field.name in ("error_code", "error_message")
        if not is_error and (field.kind == "string") == isinstance(item, str):
            setattr(copy, field.name, item)
            break
    return copy
