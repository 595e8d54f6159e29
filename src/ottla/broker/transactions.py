"""Where produce requests meet the transaction coordinator."""

from ottla.broker.context import Context
from ottla.errors import ProtocolError
from ottla.wire.messages.produce import ProduceRequest

Refused = dict[tuple[str, int], ProtocolError]


class Transactions:
    async def admit(self, request: ProduceRequest, context: Context) -> Refused:
        """Which partitions may not be written to, because their batches belong to no open transaction."""
        return {}
