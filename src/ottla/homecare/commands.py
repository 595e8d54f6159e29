"""The commands of `ottla homecare`: which module serves each. They are imported when one is used."""

from typing import NamedTuple


class Command(NamedTuple):
    module: str
    text: str
    jobs: tuple[str, ...] = ()  # for those that run pipelines


COMMANDS = {
    "demo": Command("ottla.homecare.demo", "broker, simulator and pipelines in one command, with a verdict"),
    "simulate": Command("ottla.homecare.simulator", "devices and patients that send"),
    "technician": Command("ottla.homecare.run", "which devices are offline, since when", ("technician",)),
    "nurse": Command("ottla.homecare.run", "patients out of range, with who looks after them", ("nurse",)),
    "billing": Command("ottla.homecare.run", "totals by patient and month, exactly once", ("billing",)),
    "pipelines": Command("ottla.homecare.run", "all three in one driver", ("technician", "nurse", "billing")),
    "table": Command("ottla.homecare.table", "the billing totals as a Parquet table"),
    "size": Command("ottla.homecare.size", "topics, brokers, cores, disk and network for a number of patients"),
}
