"""Who may do what. The settings of TLS and SASL are each listener's own: `config.listeners`."""

from ottla.config.definitions import INT_MAX, at_least
from ottla.config.fields import boolean, integer, long, password, string

# Read by listeners that are not PLAINTEXT; without such a listener they have no effect.
LISTENER_PREFIXES = ("listener.name.", "sasl.", "ssl.")
LISTENER_LIMITS = (".max.connections", ".max.connection.creation.rate")  # may change while running
LISTENER_SETTINGS = ("connection.failed.authentication.delay.ms", "connections.max.reauth.ms")


class SecuritySettings:
    authorizer_class_name = string(
        "",
        "The authorizer: Kafka's StandardAuthorizer, a Python class (module.Class), or empty if every client may do "
        "everything.",
    )
    super_users = string("", "Principals that may do everything, separated by semicolons.")
    allow_everyone_if_no_acl_found = boolean(
        False, "Whether a resource that no rule names is open to everybody."
    )
    delegation_token_secret_key = password(
        None,
        "From which the secrets of delegation tokens are derived, the same for all brokers; none: no tokens.",
    )
    delegation_token_max_lifetime_ms = long(
        604_800_000, "How long a delegation token lives at most, however often it is renewed.", at_least(1)
    )
    delegation_token_expiry_time_ms = long(
        86_400_000, "How long a delegation token is good before it must be renewed.", at_least(1)
    )
    delegation_token_expiry_check_interval_ms = long(
        3_600_000, "How often expired delegation tokens are removed.", at_least(1)
    )
    quota_window_num = integer(
        11, "Samples of a client's use; the quotas of all but the last may be used at once.", at_least(2)
    )
    quota_window_size_seconds = integer(1, "The length of such a sample.", at_least(1))
    controller_quota_window_num = integer(
        11,
        "As quota.window.num, for controller_mutation_rate: the quotas of all may be used at once.",
        at_least(1),
    )
    controller_quota_window_size_seconds = integer(1, "The length of such a sample.", at_least(1))
    security_inter_broker_protocol = string(
        None, "The protocol that brokers use among themselves, if inter.broker.listener.name is not set."
    )


# Among them, those that only tune Java's logins, of which there are none here.
WITHOUT_EFFECT = (
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.",
    "sasl.login.",
)


def is_fixed(name: str) -> bool:
    """A setting of listeners that must not change while running: whom the broker believes, what it reads."""
    if not is_of_listeners(name) or name.endswith(LISTENER_LIMITS):
        return False
    return not any(setting in name for setting in WITHOUT_EFFECT)


def principals_of(super_users: str) -> list[str]:
    """Of the setting super.users; there may be spaces around them."""
    return [name.strip() for name in super_users.split(";") if name.strip()]


def limit_of(text: str) -> int | None:
    """A limit of a listener; None if the text is none. Not of any length: Python refuses to read very long numbers."""
    text = text.strip()
    if not text.isdecimal() or len(text) > len(str(INT_MAX)) or int(text) > INT_MAX:
        return None
    return int(text)


def is_of_listeners(name: str) -> bool:
    return name in LISTENER_SETTINGS or name.startswith(LISTENER_PREFIXES)
