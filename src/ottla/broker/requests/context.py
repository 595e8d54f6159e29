"""What a handler may use: the request beside its message, and the parts of the broker, each by its type."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.broker.cluster.isr import IsrKeeper
from ottla.broker.cluster.metadata import Metadata
from ottla.broker.cluster.throttles import Throttles
from ottla.broker.coordinators.groups import Groups
from ottla.broker.fetching.sessions import FetchSessions
from ottla.broker.partitions.housekeeping import Housekeeping
from ottla.broker.partitions.replicas import Replicas
from ottla.broker.requests.client import Client, Sender
from ottla.broker.requests.memory import PLENTY, Memory
from ottla.broker.sharing.states import ShareStateShards
from ottla.broker.stepping import MUCH_BYTES, HeavyWork, Turns
from ottla.broker.transactions.transactions import Transactions
from ottla.config.settings import Config
from ottla.ports import Clock
from ottla.wire.compression import Scratch

if TYPE_CHECKING:  # most brokers have none of them
    from ottla.broker.contracts.contracts import Contracts
    from ottla.broker.permits.access import Access
    from ottla.broker.sharing.sharing import Sharing
    from ottla.broker.telemetry import Telemetry
    from ottla.security.quotas import Quotas
    from ottla.security.tokens import Tokens


@dataclass(slots=True)
class Context:
    """One request. `config` is as it was when the request began."""

    client: Client
    client_id: str
    api_version: int
    appended: Callable[[], None]  # from here on the request only waits: the next one may start
    config: Config
    clock: Clock
    metadata: Metadata
    replicas: Replicas
    groups: Groups
    transactions: Transactions
    sessions: FetchSessions
    share_states: ShareStateShards
    sharing_of: Callable[[], "Sharing"]  # made with the first share group
    throttles: Throttles
    isr: IsrKeeper
    housekeeping: Housekeeping
    turns: Turns  # of connections that have used up their share
    heavy_work: HeavyWork  # batches that take too long for the loop
    pattern_work: HeavyWork  # topics that fit a pattern
    scratch: Scratch  # for the records of one batch while it is checked
    get_telemetry: "Callable[[], Telemetry]"  # imported when first used
    contracts_of: "Callable[[], Contracts]"  # made with the first write to a topic that has one
    access: "Access | None" = None  # None: there is no authorizer, and everything is allowed
    quotas: "Quotas | None" = None
    tokens: "Tokens | None" = None
    memory: Memory = PLENTY
    parsed_bytes: int = 0  # what the request takes while it waits

    def wait_ms(self, wanted_ms: int) -> int:
        """How long a long poll may wait: not at all if it is large and too many such wait already."""
        if not self.client.is_peer and not self.memory.takes(self.parsed_bytes):
            return 0
        return min(wanted_ms, self.config.ottla_fetch_max_wait_ms)

    @property
    def telemetry(self) -> "Telemetry":
        return self.get_telemetry()

    @property
    def sharing(self) -> "Sharing":
        return self.sharing_of()

    @property
    def contracts(self) -> "Contracts":
        return self.contracts_of()

    @property
    def sender(self) -> Sender:
        return Sender(self.client, self.client_id)

    async def pace(self, units: int) -> None:
        """Counts `units` of work; lets other connections run if this one has used up its share."""
        if units >= MUCH_BYTES:
            self.turns.count(units)
        if self.client.work.spend(units):
            await self.rest()

    async def begin(self, units: int) -> None:
        """Before work that is done at once, and counted by `pace` then: waits for a turn of its own if others have
        filled this one."""
        if units >= MUCH_BYTES and self.turns.is_full:
            await self.rest()

    async def rest(self) -> None:
        """Lets other connections run."""
        await self.turns.rest(self.client.work, first=self.client.is_peer)

    @property
    def has_authorizer(self) -> bool:
        return self.access is not None

    def allows(self, operation: int, resource_type: int, name: str) -> bool:
        """Whether the client may do it (`security.operations` has the numbers); without an authorizer, always."""
        access = self.access
        return access is None or access.allows(self.client, operation, resource_type, name)

    def allows_any(self, operation: int, resource_type: int) -> bool:
        """Whether there may be a resource of the type on which the client may do it."""
        access = self.access
        return access is None or access.allows_any(self.client, operation, resource_type)

    def require(self, operation: int, resource_type: int, name: str) -> None:
        """Raises the resource's AUTHORIZATION_FAILED unless the client may do it."""
        if not self.allows(operation, resource_type, name):
            from ottla.broker.permits.access import refusal_of

            raise refusal_of(resource_type)
