"""How long a call may wait: seconds, a `timedelta`, or `timeout_ms`. Never a number whose unit must be guessed."""

from datetime import timedelta

from ottla.client.errors import AmbiguousTimeout

Timeout = float | timedelta | None
# Whole numbers above these are milliseconds to those who come from Java; a float is seconds to everybody.
POLL_SECONDS_MAX = 30
FLUSH_SECONDS_MAX = 300


def seconds(
    call: str, timeout: Timeout, timeout_ms: float | None, *, whole_max: int = POLL_SECONDS_MAX
) -> float | None:
    """The timeout in seconds; None where none is set. Refuses a bare whole number above `whole_max`."""
    if timeout_ms is not None:
        return timeout_ms / 1000
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if isinstance(timeout, int) and timeout > whole_max:
        raise AmbiguousTimeout(
            f"{call}({timeout}): seconds or milliseconds? Write {call}(timeout_ms={timeout}), "
            f"or {call}({timeout}.0) for seconds, or give a timedelta"
        )
    return timeout
