"""What a node looks like right now, as Prometheus' text: made when asked, nothing is kept for it."""

import resource
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.server.node import Node


def metrics_text(node: "Node") -> str:
    lines = node.broker.metrics.lines()
    for name, value in _gauges(node).items():
        lines += [f"# TYPE {name} gauge", f"{name} {value}"]
    lines += _request_memory(node)
    for key, partition, log in node.broker.replicas.logs():
        labels = f'{{topic="{key[0]}",partition="{key[1]}"}}'
        lines.append(f"ottla_log_end_offset{labels} {log.end_offset}")
        lines.append(f"ottla_log_start_offset{labels} {log.log_start_offset}")
        lines.append(f"ottla_log_size_bytes{labels} {log.size_bytes}")
        lines.append(f"ottla_high_watermark{labels} {log.high_watermark}")
        lines.append(
            f"ottla_under_replicated{labels} {int(len(partition.state.isr) < len(partition.state.replicas))}"
        )
    return "\n".join(lines) + "\n"


def _gauges(node: "Node") -> dict[str, float]:
    replicas = node.broker.replicas
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {
        "ottla_connections": sum(len(each.connections) for each in node.listeners),
        "ottla_partitions": len(replicas.partitions),
        "ottla_partitions_offline": sum(each.is_offline for each in replicas.partitions.values()),
        "ottla_log_folders_offline": sum(each.is_offline for each in replicas.folders),
        "ottla_fetch_sessions": len(node.broker.sessions),
        "ottla_loop_lag_max_seconds": node.lag.max_ms() / 1000,
        "ottla_file_handles_limit": limit,
        "ottla_file_handles_budget": file_handles_wanted(node),
        "ottla_memory_max_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _request_memory(node: "Node") -> list[str]:
    budget = node.listeners[0].budget
    lines = ["# TYPE ottla_request_memory_bytes gauge"]
    for name, lane in budget.lanes.items():
        lines.append(f'ottla_request_memory_bytes{{lane="{name}"}} {lane.held_bytes}')
    lines.append("# TYPE ottla_request_memory_waiting gauge")
    for name, lane in budget.lanes.items():
        lines.append(f'ottla_request_memory_waiting{{lane="{name}"}} {lane.waiting}')
    unsent = node.listeners[0].unsent.held_bytes
    return [*lines, "# TYPE ottla_unsent_bytes gauge", f"ottla_unsent_bytes {unsent}"]


def file_handles_wanted(node: "Node") -> int:
    """An active segment for each partition, the cache of closed ones, the connections, and some to spare."""
    connections = sum(len(each.connections) for each in node.listeners)
    cached = node.config.ottla_open_files_max
    return len(node.broker.replicas.partitions) + cached + connections + 64


def health(node: "Node") -> tuple[bool, str]:
    offline = [folder.path for folder in node.broker.replicas.folders if folder.is_offline]
    if offline:
        return False, f"offline log folders: {', '.join(offline)}"
    return True, "ok"
