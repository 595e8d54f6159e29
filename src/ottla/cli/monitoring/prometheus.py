"""A configuration for Prometheus: both pages of every broker, and the alerts."""

from collections.abc import Sequence


def configuration(
    targets: Sequence[str],
    *,
    interval: str = "15s",
    partitions_interval: str = "60s",
    rules: str | None = None,
    pipelines: Sequence[str] = (),
) -> str:
    """`targets` are HOST:PORT of `ottla start --http`. Series of partitions are many: scraped less often."""
    lines = ["global:", f"  scrape_interval: {interval}", f"  evaluation_interval: {interval}"]
    if rules:
        lines += ["rule_files:", f"  - {_quoted(rules)}"]
    lines.append("scrape_configs:")
    lines += _job("ottla", "/metrics", targets)
    lines += _job("ottla-partitions", "/metrics/partitions", targets, partitions_interval)
    if pipelines:
        lines += _job("ottla-pipelines", "/metrics", pipelines)
    return "\n".join(lines) + "\n"


def _job(name: str, path: str, targets: Sequence[str], interval: str | None = None) -> list[str]:
    listed = ", ".join(map(_quoted, targets))
    return [
        f"  - job_name: {name}",
        f"    metrics_path: {path}",
        *([f"    scrape_interval: {interval}"] if interval else []),
        "    static_configs:",
        f"      - targets: [{listed}]",
    ]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
