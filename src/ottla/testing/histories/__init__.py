"""What clients did and saw, checked for what a log must never do, as Jepsen's Kafka workload does it.

    history = Recorder("run.jsonl")
    send = history.send("producer-1", "orders", "value-17", transaction="t-5")
    ...                                   # produce it
    send.ok(partition=0, offset=42)       # or .fail(), when it certainly was not written; else .unknown()
    history.poll("consumer-1", [("orders", 0, 42, "value-17")])
    ...
    check(load("run.jsonl"), drained=True).raise_if_any()

Rules of the game: values are unique per topic, except that what was aborted may be sent again; a process
does one thing at a time; one that is started again has a new name; consumers that are given partitions,
lose them or seek say so (`assign`, `subscribe`, `seek`), for their polls start again there.
"""

from ottla.testing.histories.anomalies import Anomaly, Kind, Report
from ottla.testing.histories.checker import check
from ottla.testing.histories.ops import Op, Outcome, Record
from ottla.testing.histories.recorder import Recorder, load

__all__ = ["Anomaly", "Kind", "Op", "Outcome", "Record", "Recorder", "Report", "check", "load"]
