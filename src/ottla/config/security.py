"""Who may do what. The settings of TLS and SASL are each listener's own: `config.listeners`."""

from ottla.config.fields import boolean, string

# Read by listeners that are not PLAINTEXT; without such a listener they have no effect.
LISTENER_PREFIXES = ("listener.name.", "sasl.", "ssl.")
LISTENER_SETTINGS = ("connection.failed.authentication.delay.ms", "connections.max.reauth.ms")


class SecuritySettings:
    authorizer_class_name = string(
        "", "The authorizer: Kafka's StandardAuthorizer, or empty if every client may do everything."
    )
    super_users = string("", "Principals that may do everything, separated by semicolons.")
    allow_everyone_if_no_acl_found = boolean(
        False, "Whether a resource that no rule names is open to everybody."
    )
    security_inter_broker_protocol = string(
        None, "The protocol that brokers use among themselves, if inter.broker.listener.name is not set."
    )


def is_of_listeners(name: str) -> bool:
    return name in LISTENER_SETTINGS or name.startswith(LISTENER_PREFIXES)
