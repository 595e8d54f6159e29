"""A configuration for Prometheus: both pages of every broker, and the alerts."""

from collections.abc import Sequence


def configuration(
    targets: Sequence[str],
    *,
    interval: str = "15s",
    partitions_interval: str = "60s",
    rules: str | None = None,
    pipelines: Sequence[str] = (),
    access: Sequence[str] = (),
) -> str:
    """`targets` are HOST:PORT of `ottla start --http`. Series of partitions are many: scraped less often."""
    lines = ["global:", f"  scrape_interval: {interval}", f"  evaluation_interval: {interval}"]
    if rules:
        lines += ["rule_files:", f"  - {_quoted(rules)}"]
    lines.append("scrape_configs:")
    lines += [*_job("ottla", "/metrics", targets), *access]
    lines += [*_job("ottla-partitions", "/metrics/partitions", targets, partitions_interval), *access]
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


def access(
    *, https: bool = False, ca: str | None = None, user: str | None = None, file: str | None = None
) -> list[str]:
    """Lines of a job for pages with TLS (`ca` signed the certificate) and a login (the password is in `file`)."""
    lines = ["    scheme: https"] if https or ca else []
    if ca:
        lines += ["    tls_config:", f"      ca_file: {_quoted(ca)}"]
    if user:
        lines += [
            "    basic_auth:",
            f"      username: {_quoted(user)}",
            f"      password_file: {_quoted(file or '')}",
        ]
    return lines


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
