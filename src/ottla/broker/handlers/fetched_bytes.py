"""How large the answer to a fetch may be, for consumers and for members of share groups."""

from ottla.broker.requests.context import Context
from ottla.security.quotas import FETCH as CONSUMER_BYTE_RATE


def answer_bytes_max(wanted_bytes: int, context: Context) -> int:
    config = context.config
    limit: int = min(config.fetch_max_bytes, config.ottla_connection_responses_max_bytes, wanted_bytes)
    quotas = context.quotas
    if quotas is None or context.client.is_peer:
        return limit
    # No more than its quota allows at once: or one answer would cost a slow client hours.
    burst = quotas.burst(CONSUMER_BYTE_RATE, context.client.principal, context.client_id)
    return limit if burst is None else min(limit, max(int(burst), 1))
