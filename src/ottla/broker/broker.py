"""The parts of a broker, made and joined: handlers get them by their types, in a `Context`."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from ottla import errors
from ottla.broker.cluster.channel import ControllerChannel
from ottla.broker.cluster.duties import Duties
from ottla.broker.cluster.followers import Followers
from ottla.broker.cluster.isr import IsrKeeper
from ottla.broker.cluster.metadata import Metadata
from ottla.broker.cluster.peers import NoPeers, Peers
from ottla.broker.cluster.throttles import Throttles
from ottla.broker.coordinators.groups import Groups
from ottla.broker.fetching.sessions import FetchSessions
from ottla.broker.metrics import Metrics
from ottla.broker.partitions.housekeeping import Housekeeping
from ottla.broker.partitions.replicas import Replicas
from ottla.broker.requests.client import Client, Sender
from ottla.broker.requests.context import Context
from ottla.broker.requests.memory import PLENTY, Memory
from ottla.broker.requests.quotas import ClientQuotas
from ottla.broker.routes import ROUTES
from ottla.broker.settings import Settings
from ottla.broker.sharing.states import ShareStateShards
from ottla.broker.stepping import HeavyWork, Turns
from ottla.broker.transactions.producer_ids import ProducerIds
from ottla.broker.transactions.transactions import Transactions
from ottla.broker.waits import Running
from ottla.config.settings import Config
from ottla.metadata.controller import Controller
from ottla.metadata.image import Image
from ottla.metadata.topics import Charge, free_of_charge
from ottla.ports import Clock
from ottla.replication.partition import Partition
from ottla.wire.compression import Scratch
from ottla.wire.schema import Request

if TYPE_CHECKING:
    from ottla.broker.contracts.checks import Schemas
    from ottla.broker.contracts.contracts import Contracts
    from ottla.broker.coordinators.lag import EndOffsets
    from ottla.broker.permits.access import Access
    from ottla.broker.sharing.sharing import Sharing
    from ottla.broker.telemetry import Telemetry
    from ottla.security.quotas import Quotas
    from ottla.security.tokens import Tokens

R = TypeVar("R")
OWN_CLIENT_ID = "ottla-broker"


class Broker:
    def __init__(
        self,
        config: Config,
        clock: Clock,
        controller: Controller,
        replicas: Replicas,
        sessions: FetchSessions,
        housekeeping: Housekeeping,
        metrics: Metrics,
        new_uuid: Callable[[], bytes],
        heavy_work: HeavyWork,
        peers: Peers | None = None,
        access: "Access | None" = None,
        make_schemas: "Callable[[], Schemas] | None" = None,
    ) -> None:
        self.node_id = config.node_id
        self.clock, self.controller, self.replicas = clock, controller, replicas
        self.sessions, self.housekeeping, self.metrics = sessions, housekeeping, metrics
        self.access = access
        self.turns = Turns(clock)
        self._heavy_work, self._pattern_work = heavy_work, heavy_work.lane(1)
        self.scratch = Scratch()
        image, others = controller.image, peers or NoPeers()
        self._peers: Peers = others
        self.throttles = Throttles(self.node_id, image, config)
        self.settings = Settings(
            config, image, replicas.on_config, housekeeping.on_config, self.throttles.on_config
        )
        self._quotas = ClientQuotas(image, self.settings)
        self.tokens = _tokens(config, image, new_uuid)
        channel = ControllerChannel(controller, others, clock, self.settings, self._answer_here)
        self.metadata = Metadata(controller, channel, new_uuid, self._charge_of, in_cluster=peers is not None)
        self.followers = Followers(self.node_id, image, clock, others, config, self.throttles)
        self.isr = IsrKeeper(self.node_id, image, clock, channel, replicas.partitions, config)
        self.duties = Duties(controller, clock, config)
        self.groups = Groups(image, clock, self.settings, new_uuid)
        self.transactions = Transactions(
            self.settings,
            clock,
            self.metadata,
            replicas,
            self.groups,
            others,
            ProducerIds(self.node_id, image, channel),
        )
        self.share_states = ShareStateShards(self.metadata, clock, self.settings)
        self.shares = False  # whether there was a share group yet
        self._is_joined = False
        self._new_uuid = new_uuid
        self._make_schemas = make_schemas
        replicas.watch(self._on_partition)
        image.watch(metrics.on_record)

    @cached_property
    def telemetry(self) -> "Telemetry":
        """Imported with the first client that asks for its subscriptions."""
        from ottla.broker.telemetry import Telemetry

        return Telemetry(self.image, self._new_uuid, self.config.telemetry_max_bytes)

    def _get_telemetry(self) -> "Telemetry":
        return self.telemetry

    @property
    def has_telemetry(self) -> bool:
        return "telemetry" in vars(self)

    @cached_property
    def sharing(self) -> "Sharing":
        """Made with the first share group."""
        from ottla.broker.sharing.sharing import Sharing

        self.shares = True
        return Sharing(
            self.node_id,
            self.metadata,
            self.share_states,
            self._peers,
            self.clock,
            self.settings,
            self.replicas,
        )

    @cached_property
    def contracts(self) -> "Contracts":
        """Made with the first write to a topic whose records must have schemas."""
        from ottla.broker.contracts.contracts import Contracts

        if self._make_schemas is None:
            raise errors.PolicyViolation("this broker knows no schemas, and the topic asks for them")
        return Contracts(
            self.image,
            self.replicas,
            self._peers,
            self.clock,
            self.settings,
            self._heavy_work.lane(1),
            self._make_schemas,
        )

    @cached_property
    def end_offsets(self) -> "EndOffsets":
        """Imported with the first scrape."""
        from ottla.broker.coordinators.lag import EndOffsets

        return EndOffsets(self.node_id, self.image, self.clock, self._peers, self.replicas)

    @property
    def image(self) -> Image:
        return self.metadata.image

    @property
    def quotas(self) -> "Quotas | None":
        """Of clients; None while there are none."""
        return self._quotas.now

    @property
    def config(self) -> Config:
        return self.settings.now

    def context(
        self,
        client: Client,
        client_id: str,
        api_version: int,
        appended: Callable[[], None] = lambda: None,
        memory: Memory = PLENTY,
        parsed_bytes: int = 0,
    ) -> Context:
        """For one request."""
        return Context(
            client,
            client_id,
            api_version,
            appended,
            self.settings.now,
            self.clock,
            self.metadata,
            self.replicas,
            self.groups,
            self.transactions,
            self.sessions,
            self.share_states,
            lambda: self.sharing,
            self.throttles,
            self.isr,
            self.housekeeping,
            self.turns,
            self._heavy_work,
            self._pattern_work,
            self.scratch,
            self._get_telemetry,
            lambda: self.contracts,
            self.access,
            self.quotas,
            self.tokens,
            memory,
            parsed_bytes,
        )

    def on_joined(self) -> None:
        """This broker is registered: leaders will know which incarnation of it follows them."""
        self._is_joined = True
        self.replicas.join()
        for key, partition in self.replicas.partitions.items():
            self.followers.on_partition(key, partition)
        self.isr.start()
        self.duties.start()

    def close(self) -> None:
        self.followers.close()
        self.isr.close()
        self.duties.close()
        self.housekeeping.close()

    def _answer_here(
        self,
        request: Request[R],
        version: int,
        answer: Callable[[R | Exception], None],
        sender: Sender | None,
    ) -> None:
        """A request to the controller, which is at this broker; without a sender it is the broker's own."""

        def finished(response: R, error: Exception | None) -> None:
            answer(response if error is None else error)

        client, client_id = sender or Sender(Client("", 0), OWN_CLIENT_ID)
        context = self.context(client, client_id, version)
        Running(ROUTES[request.API_KEY].handler(request, context), finished).step()  # type: ignore[arg-type]

    def _charge_of(self, sender: Sender) -> Charge:
        if self.quotas is None:
            return free_of_charge
        mutations = self.quotas.mutations(
            sender.client.principal, sender.client_id, self.clock.monotonic_ms(), is_strict=True
        )
        return free_of_charge if mutations is None else mutations.charge

    def _on_partition(self, key: tuple[str, int], partition: Partition | None) -> None:
        topic, index = key
        if self._is_joined:
            self.followers.on_partition(key, partition)
        if topic == self.groups.topic:
            self.groups.on_partition(index, partition)
        elif topic == self.transactions.coordinator.topic:
            self.transactions.coordinator.on_partition(index, partition)
        elif topic == self.share_states.topic:
            self.share_states.on_partition(index, partition)


def _tokens(config: Config, image: Image, new_uuid: Callable[[], bytes]) -> "Tokens | None":
    """Delegation tokens; None without a key for them."""
    secret_key = config.delegation_token_secret_key
    if not secret_key:
        return None
    from ottla.security.tokens import Terms, Tokens

    terms = Terms(config.delegation_token_max_lifetime_ms, config.delegation_token_expiry_time_ms)
    return Tokens(image, secret_key, terms, new_uuid)
