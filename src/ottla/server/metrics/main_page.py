"""`/metrics`: a broker as a whole, its topics, groups and requests. No series for single partitions."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.coordinators.lag import group_offsets
from ottla.broker.requests.times import PHASES
from ottla.broker.routes import ROUTES
from ottla.errors import error_for
from ottla.exposition import Family, Number, Sample, escaped, labels
from ottla.replication.traffic import Traffic
from ottla.server.metrics.catalogue import family
from ottla.server.metrics.health import readiness
from ottla.server.metrics.process import ProcessFigures
from ottla.server.metrics.request_times import RequestTimes

if TYPE_CHECKING:
    from ottla.server.node import Node

TOPICS_MAX = 1_000  # with series of their own: the first that came, so that series do not come and go
AT_ONCE = 200  # partitions that are looked at in one step
PHASE_STEP = 2  # every second power of two for the phases: they are many
TRAFFIC = {
    "messagesin": "messages_in",
    "bytesin": "bytes_in",
    "bytesout": "bytes_out",
    "replicationbytesin": "replication_bytes_in",
    "replicationbytesout": "replication_bytes_out",
    "totalproducerequests": "produces",
    "totalfetchrequests": "fetches",
    "failedproducerequests": "failed_produces",
    "failedfetchrequests": "failed_fetches",
}


class Outside(NamedTuple):
    """What had to be asked of the system, in a thread."""

    process: ProcessFigures
    free_bytes: dict[str, int]  # by log folder
    version: str = ""


def families(
    node: "Node", outside: Outside, request_times: RequestTimes | None = None
) -> Iterator[Family | None]:
    yield from _traffic(node)
    yield from _replicas(node)
    yield from _controller(node)
    yield from _groups(node)
    yield from _transactions(node)
    yield from _requests(node)
    yield from (request_times or RequestTimes()).families(node.broker.metrics)
    yield from _process(node, outside.process, outside.version)
    yield from _folders(node, outside.free_bytes)
    yield from _clients(node)


def _one(name: str, value: Number) -> Family:
    return family(name, [("", value)])


# -- topics and partitions -----------------------------------------------------------------------


def _traffic(node: "Node") -> Iterator[Family | None]:
    replicas = node.broker.replicas
    topics = list(replicas.traffic.items())
    total = Traffic()
    total.add(replicas.other_traffic)
    for at, (_, traffic) in enumerate(topics):
        total.add(traffic)
        if not at % AT_ONCE:
            yield None
    shown = [(labels(topic=name), traffic) for name, traffic in topics[:TOPICS_MAX]]
    for name, field in TRAFFIC.items():
        samples: list[Sample] = [("", getattr(total, field))]
        samples += [(text, getattr(traffic, field)) for text, traffic in shown]
        yield family(f"kafka_server_brokertopicmetrics_{name}_total", samples)
    yield _one("ottla_topics_without_series", max(len(topics) - TOPICS_MAX, 0))


def _replicas(node: "Node") -> Iterator[Family | None]:
    replicas = node.broker.replicas
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    folders: Counter[str] = Counter({folder.path: 0 for folder in replicas.folders})
    first: list[Sample] = []
    image = node.broker.image
    for at, ((topic, index), partition) in enumerate(list(replicas.partitions.items())):
        if not at % AT_ONCE:
            yield None
        log, state = partition.log, partition.state
        if log is not None:
            size, home = log.size_bytes, replicas.home((topic, index))
            sizes[topic] += size
            if home is not None:
                folders[home.path] += size
        counts["offline"] += log is None
        if not partition.is_leader:
            continue
        counts["leaders"] += 1
        counts["under_replicated"] += len(state.isr) < len(state.replicas)
        if log is not None:
            least = partition.min_isr(log)
            counts["under_min"] += len(state.isr) < least
            counts["at_min"] += len(state.isr) == least
        known = image.topics.get(topic)
        if not index and known is not None and len(first) < TOPICS_MAX:
            first.append((labels(topic=topic), len(known.partitions)))
    manager = "kafka_server_replicamanager_"
    yield _one(f"{manager}partitioncount", len(replicas.partitions))
    yield _one(f"{manager}leadercount", counts["leaders"])
    yield _one(f"{manager}underreplicatedpartitions", counts["under_replicated"])
    yield _one(f"{manager}underminisrpartitioncount", counts["under_min"])
    yield _one(f"{manager}atminisrpartitioncount", counts["at_min"])
    yield _one(f"{manager}offlinereplicacount", counts["offline"])
    yield _one(f"{manager}isrshrinks_total", replicas.isr_shrinks)
    yield _one(f"{manager}isrexpands_total", replicas.isr_expands)
    yield _one("ottla_partitions_offline", counts["offline"])
    yield family("kafka_topic_partitions", first)
    yield family("ottla_log_folder_bytes", [(labels(folder=path), size) for path, size in folders.items()])
    yield family(
        "ottla_log_bytes", [(labels(topic=name), size) for name, size in islice(sizes.items(), TOPICS_MAX)]
    )


def _controller(node: "Node") -> Iterator[Family | None]:
    image, is_here = node.broker.image, node.broker.metadata.is_controller_here
    offline = 0
    if is_here:
        for at, state in enumerate(list(image.partitions())):
            offline += state.leader < 0
            if not at % AT_ONCE:
                yield None
    brokers = list(image.brokers.values()) if is_here else []
    able = sum(broker.may_lead for broker in brokers)
    controller = "kafka_controller_kafkacontroller_"
    yield _one(f"{controller}activecontrollercount", int(is_here))
    yield _one(f"{controller}offlinepartitionscount", offline)
    yield _one(f"{controller}activebrokercount", able)
    yield _one(f"{controller}fencedbrokercount", len(brokers) - able)
    yield _one(
        "kafka_controller_controllerstats_uncleanleaderelections_total", node.broker.metrics.unclean_elections
    )
    yield family("kafka_brokers", [("", able)] if is_here else [])


# -- groups and transactions ---------------------------------------------------------------------


def _groups(node: "Node") -> Iterator[Family | None]:
    broker = node.broker
    lags: dict[tuple[str, str], int] = {}
    for offset in group_offsets(broker.groups, broker.end_offsets):
        if offset is None:
            yield None
        elif offset.lag is not None:
            key = offset.group, offset.topic
            lags[key] = lags.get(key, 0) + offset.lag
    broker.end_offsets.maybe_refresh()
    members: list[Sample] = []
    for shard in list(broker.groups.shards.values()):
        for name, group in list(shard.machine.state.groups.items()):
            members.append((labels(consumergroup=name), len(group.members)))
            if not len(members) % AT_ONCE:
                yield None
    yield _one("ottla_groups", len(members))
    yield family("kafka_consumergroup_members", members)
    yield family(
        "kafka_consumergroup_lag_sum",
        ((labels(consumergroup=group, topic=topic), lag) for (group, topic), lag in lags.items()),
    )


def _transactions(node: "Node") -> Iterator[Family | None]:
    states: Counter[str] = Counter({"Ongoing": 0})
    oldest_ms = now_ms = node.clock.now_ms()
    for shard in list(node.broker.transactions.coordinator.shards.values()):
        for transaction in shard.machine.busy_ones():
            states[transaction.state.title] += 1
            if transaction.start_ms >= 0:
                oldest_ms = min(oldest_ms, transaction.start_ms)
        yield None
    yield family("ottla_transactions_open", [(labels(state=name), count) for name, count in states.items()])
    yield _one("ottla_transaction_age_max_seconds", (now_ms - oldest_ms) / 1000)


# -- requests ------------------------------------------------------------------------------------


def _requests(node: "Node") -> Iterator[Family | None]:
    metrics = node.broker.metrics
    names = {key: f'api="{route.api.name}"' for key, route in ROUTES.items()}
    yield family(
        "ottla_requests_total",
        [(f'{{{names[key]},version="{v}"}}', n) for (key, v), n in sorted(metrics.requests.items())],
    )
    yield family(
        "ottla_request_errors_total",
        [
            (f'{{{names[key]},error="{error_for(code).name()}"}}', count)
            for (key, code), count in sorted(metrics.errors.items())
        ],
    )
    yield family(
        "ottla_request_bytes_total",
        [(f"{{{names[key]}}}", count) for key, count in sorted(metrics.request_bytes.items())],
    )
    times = sorted(metrics.times.items())
    yield family(
        "ottla_request_seconds", (sample for key, api in times for sample in api.total.samples(names[key]))
    )
    yield family(
        "ottla_request_phase_seconds",
        (
            sample
            for key, api in times
            for phase in PHASES
            for sample in getattr(api, phase).samples(
                f'{names[key]},phase="{phase}"', step=PHASE_STEP, count=sum(api.total.counts)
            )
        ),
    )
    yield family(
        "ottla_throttles_total",
        [(f"{{{names[key]}}}", count) for key, count in sorted(metrics.throttles.items())],
    )
    yield family(
        "ottla_throttle_seconds_total",
        [(f"{{{names[key]}}}", count / 1000) for key, count in sorted(metrics.throttled_ms.items())],
    )


# -- the process ---------------------------------------------------------------------------------


def _process(node: "Node", process: ProcessFigures, version: str) -> Iterator[Family | None]:
    yield family("ottla_build_info", [(labels(version=version, node_id=node.config.node_id), 1)])
    yield _one("ottla_ready", int(readiness(node).is_well))
    yield _one("process_cpu_seconds_total", process.cpu_seconds)
    yield _one("process_resident_memory_bytes", process.resident_bytes)
    yield _one("process_virtual_memory_bytes", process.virtual_bytes)
    yield _one("process_start_time_seconds", process.start_seconds)
    yield _one("process_open_fds", process.open_files)
    yield _one("process_max_fds", process.files_max)
    yield _one("ottla_memory_max_bytes", process.memory_max_bytes)
    yield _one("ottla_file_handles_limit", process.files_max)
    yield _one("ottla_file_handles_budget", file_handles_wanted(node))
    yield _one("kafka_server_kafkaserver_linux_disk_read_bytes", process.disk_read_bytes)
    yield _one("kafka_server_kafkaserver_linux_disk_write_bytes", process.disk_write_bytes)
    lag = node.lag
    yield _one("kafka_network_socketserver_networkprocessoravgidle_percent", lag.idle_ratio)
    yield _one("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", lag.idle_ratio)
    yield _one("ottla_loop_lag_max_seconds", lag.max_ms() / 1000)
    yield family("ottla_loop_lag_seconds", lag.times.samples(first=10, step=PHASE_STEP))


def _folders(node: "Node", free_bytes: dict[str, int]) -> Iterator[Family | None]:
    folders = node.broker.replicas.folders
    yield family(
        "ottla_log_folder_free_bytes", [(labels(folder=path), count) for path, count in free_bytes.items()]
    )
    offline = sum(folder.is_offline for folder in folders)
    yield _one("kafka_log_logmanager_offlinelogdirectorycount", offline)


def _clients(node: "Node") -> Iterator[Family | None]:
    broker, listeners = node.broker, node.listeners
    yield family(
        "kafka_server_socket_server_metrics_connection_count",
        [
            (f'{{listener="{escaped(listener.name)}",networkprocessor="0"}}', len(listener.connections))
            for listener in listeners
        ],
    )
    yield _one("ottla_connections", sum(len(listener.connections) for listener in listeners))
    counts = broker.metrics.counts
    for name in ("ottla_logins_total", "ottla_failed_logins_total", "ottla_failed_tls_handshakes_total"):
        yield _one(name, counts[name])
    yield _one("ottla_denied_total", broker.access.denied if broker.access is not None else 0)
    yield _one("ottla_fetch_sessions", len(broker.sessions))
    lanes = listeners[0].budget.lanes
    yield family(
        "ottla_request_memory_bytes", [(labels(lane=name), lane.held_bytes) for name, lane in lanes.items()]
    )
    yield family(
        "ottla_request_memory_waiting", [(labels(lane=name), lane.waiting) for name, lane in lanes.items()]
    )
    yield _one("ottla_unsent_bytes", listeners[0].unsent.held_bytes)
    telemetry = broker.telemetry if broker.has_telemetry else None
    yield _one("ottla_client_telemetry_instances", len(telemetry.instances) if telemetry else 0)
    yield _one("ottla_client_telemetry_pushes_total", telemetry.pushes if telemetry else 0)
    yield _one("ottla_client_telemetry_bytes_total", telemetry.pushed_bytes if telemetry else 0)


def file_handles_wanted(node: "Node") -> int:
    """An active segment for each partition, the cache of closed ones, the connections, and some to spare."""
    connections = sum(len(listener.connections) for listener in node.listeners)
    cached = node.config.ottla_open_files_max
    return len(node.broker.replicas.partitions) + cached + connections + 64
