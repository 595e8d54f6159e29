"""`ottla generate`: files for Prometheus and Grafana that fit this broker's metrics."""

import argparse

from ottla.cli.options import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="WHAT")
    text = "a dashboard for Grafana (Dashboards, Import)"
    dashboard = commands.add_parser("grafana-dashboard", help=text, description=text)
    dashboard.add_argument("--title", default="Ottla")
    text = "prometheus.yml that scrapes both pages of every broker"
    prometheus = commands.add_parser("prometheus-config", help=text, description=text)
    prometheus.add_argument("target", nargs="+", metavar="HOST:PORT", help="of `ottla start --http`")
    prometheus.add_argument("--interval", default="15s", help="of scrapes (default: 15s)")
    prometheus.add_argument(
        "--partitions-interval", default="60s", metavar="TIME", help="of /metrics/partitions (default: 60s)"
    )
    prometheus.add_argument("--alerts", metavar="FILE", help="rules, as `ottla generate alerts` writes them")
    prometheus.add_argument(
        "--pipelines", action="append", default=[], metavar="HOST:PORT", help="of `ottla pipelines metrics`"
    )
    prometheus.add_argument("--https", action="store_true", help="for `ottla start --http-certificate`")
    prometheus.add_argument("--ca", metavar="FILE", help="PEM: who signed the certificates; implies --https")
    prometheus.add_argument("--user", metavar="NAME", help="for `ottla start --http-users`")
    prometheus.add_argument("--password-file", metavar="FILE", help="where Prometheus finds the password")
    text = "alerting rules for Prometheus"
    alerts = commands.add_parser("alerts", help=text, description=text)
    alerts.add_argument(
        "--for",
        dest="hold",
        metavar="TIME",
        help="how long a condition must hold, for all (default: each its own)",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.command == "grafana-dashboard":
        from ottla.cli.monitoring.dashboard import text

        print(text(arguments.title), end="")
    elif arguments.command == "alerts":
        from ottla.cli.monitoring.alerts import rules

        print(rules(arguments.hold), end="")
    else:
        from ottla.cli.monitoring.prometheus import access, configuration

        if bool(arguments.user) != bool(arguments.password_file):
            raise UsageError("--user and --password-file go together")
        for target in (*arguments.target, *arguments.pipelines):
            if not target.rpartition(":")[2].isdecimal():
                raise UsageError(f"{target!r} is not HOST:PORT; the port is that of `ottla start --http`")
        print(
            configuration(
                arguments.target,
                interval=arguments.interval,
                partitions_interval=arguments.partitions_interval,
                rules=arguments.alerts,
                pipelines=arguments.pipelines,
                access=access(
                    https=arguments.https,
                    ca=arguments.ca,
                    user=arguments.user,
                    file=arguments.password_file,
                ),
            ),
            end="",
        )
    return 0
