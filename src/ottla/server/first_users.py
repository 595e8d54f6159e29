"""The user under which brokers log in at each other with SCRAM, for a cluster that has no users yet.

Users are records of the metadata log. Without this one nobody could log in to add the first.
"""

import os

from ottla.config.listeners import inter_broker_listener, listener_settings
from ottla.config.settings import Config
from ottla.metadata.records import ScramSet
from ottla.security import scram
from ottla.security.administration import SCRAM_NAMES


def first_users(config: Config) -> tuple[ScramSet, ...]:
    """Of the inter-broker listener's JAAS entry. Takes milliseconds, on purpose: not on the event loop."""
    listener = listener_settings(config, inter_broker_listener(config))
    mechanism = listener.get("sasl.mechanism.inter.broker.protocol").upper()
    if not listener.has_sasl or mechanism not in scram.MECHANISMS:
        return ()
    jaas = listener.jaas(mechanism)
    if jaas is None or not {"username", "password"} <= jaas.options.keys():
        return ()
    name, password = jaas.options["username"], jaas.options["password"]
    return tuple(
        _record(name, number, scram.credential_of(digest, password, os.urandom(24), scram.ITERATIONS_MIN))
        for number, digest in ((number, scram.MECHANISMS[name]) for number, name in SCRAM_NAMES.items())
    )


def _record(name: str, mechanism: int, credential: scram.Credential) -> ScramSet:
    return ScramSet(
        name,
        mechanism,
        credential.salt,
        credential.stored_key,
        credential.server_key,
        credential.iterations,
    )
