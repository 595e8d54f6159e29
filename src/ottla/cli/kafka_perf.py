"""`ottla perf` with the names, flags and output of Kafka's perf tools."""

import argparse

from ottla.cli import perf
from ottla.cli.kafka_options import VERSION, settings
from ottla.cli.options import UsageError, pairs

TIMEOUT_S = 60.0


class ProducerTest:
    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        _add_common(parser, bootstrap_required=False)
        parser.add_argument("--num-records", type=int, required=True)
        size = parser.add_mutually_exclusive_group(required=True)
        size.add_argument("--record-size", type=int)
        size.add_argument("--payload-file", metavar="FILE", help="records to send, a line each, at random")
        parser.add_argument("--throughput", type=float, required=True, help="records a second; -1: no limit")
        parser.add_argument(
            "--producer-props", "--command-property", nargs="+", default=[], metavar="NAME=VALUE"
        )
        parser.add_argument("--producer.config", dest="producer_config", metavar="FILE")

    @staticmethod
    def run(arguments: argparse.Namespace) -> int:
        arguments.command_config = arguments.command_config or arguments.producer_config
        chosen = {**settings(arguments), **pairs(arguments.producer_props)}
        if not chosen.get("bootstrap.servers"):
            raise UsageError("--bootstrap-server, or bootstrap.servers in --producer-props, is required")
        perf.produce(
            chosen,
            arguments.topic,
            arguments.num_records,
            perf.payloads(arguments.record_size or 0, arguments.payload_file),
            arguments.throughput,
        )
        return 0


class ConsumerTest:
    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        _add_common(parser)
        parser.add_argument("--messages", "--num-records", type=int, required=True)
        parser.add_argument("--group", default=None)
        parser.add_argument("--from-latest", action="store_true")
        parser.add_argument("--timeout", type=int, default=10_000, help="milliseconds without a record")
        parser.add_argument("--hide-header", action="store_true")
        parser.add_argument("--consumer.config", dest="consumer_config", metavar="FILE")

    @staticmethod
    def run(arguments: argparse.Namespace) -> int:
        arguments.command_config = arguments.command_config or arguments.consumer_config
        chosen = settings(
            arguments,
            group_id=arguments.group or perf.own_group(),
            auto_offset_reset="latest" if arguments.from_latest else "earliest",
        )
        counted = perf.consume(chosen, arguments.topic, arguments.messages, arguments.timeout / 1000)
        if not arguments.hide_header:
            print(
                "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
                "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
            )
        joining_ms, fetching_ms = round(counted.joining_s * 1000), round(counted.reading_s * 1000)
        print(
            f"{counted.began}, {counted.ended}, {counted.megabytes:.4f}, {counted.megabytes / counted.seconds:.4f}, "
            f"{counted.records}, {counted.records / counted.seconds:.4f}, {joining_ms}, {fetching_ms}, "
            f"{counted.megabytes / counted.reading_s:.4f}, {counted.records / counted.reading_s:.4f}"
        )
        return 0


class Latency:
    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        _add_common(parser)
        parser.add_argument("--num-records", type=int, required=True)
        parser.add_argument("--producer-acks", "--acks", dest="acks", choices=["1", "all"], required=True)
        parser.add_argument("--record-size", type=int, required=True)

    @staticmethod
    def run(arguments: argparse.Namespace) -> int:
        if arguments.num_records < 1:
            raise UsageError(f"--num-records {arguments.num_records}: a latency needs one record or more")
        known = perf.latencies(
            settings(arguments, acks=arguments.acks, linger_ms=0),
            settings(arguments),
            arguments.topic,
            arguments.num_records,
            arguments.record_size,
            TIMEOUT_S,
        )
        print(f"Avg latency: {sum(known) / len(known):.4f} ms\n")
        percentiles = ", ".join(
            f"{name} = {perf.percentile(known, share):.0f}" for share, name in _PERCENTILES
        )
        print(f"Percentiles: {percentiles}")
        return 0


_PERCENTILES = ((0.5, "50th"), (0.99, "99th"), (0.999, "99.9th"))


def _add_common(parser: argparse.ArgumentParser, *, bootstrap_required: bool = True) -> None:
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT", required=bootstrap_required)
    parser.add_argument("--command-config", metavar="FILE", help="client settings, name=value lines")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--version", action="version", version=VERSION)
