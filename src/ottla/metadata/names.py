"""Which topic names are allowed, and which are the brokers' own."""

import re

from ottla import errors

NAME_MAX_LENGTH = 249
CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
CLUSTER_METADATA = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def is_legal(name: str) -> bool:
    try:
        check_name(name)
    except errors.InvalidTopicException:
        return False
    return True


def check_name(name: str) -> None:
    if not name:
        raise errors.InvalidTopicException("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise errors.InvalidTopicException(f"Topic name is invalid: '{name}' is not allowed")
    if len(name) > NAME_MAX_LENGTH:
        raise errors.InvalidTopicException(
            f"Topic name is invalid: the length of '{name}' is longer than "
            f"the max allowed length {NAME_MAX_LENGTH}"
        )
    if not _LEGAL.match(name):
        raise errors.InvalidTopicException(
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
