"""Fail-over: what would be lost, in figures; then the copies become topics of their own."""

from dataclasses import dataclass

from ottla.client.admin import Admin
from ottla.mirror import status
from ottla.mirror.errors import MirrorError
from ottla.mirror.link import EXACT, Link
from ottla.mirror.status import LinkStatus


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of the source beyond what was copied."""

    link: Link
    status: LinkStatus

    def lines(self) -> list[str]:
        link_status = self.status
        lines = [f"{self.link.name}: {link_status.state}, {len(link_status.partitions)} partitions"]
        if link_status.lag is None:
            silent = [
                partition.silent_s for partition in link_status.partitions if partition.silent_s is not None
            ]
            lines.append(
                f"the source cannot be asked. The last step was {min(silent):,.0f} s ago: what was written there since "
                "then is not here"
                if silent
                else "the source cannot be asked, and nothing was copied yet"
            )
            return lines
        behind = [partition for partition in link_status.partitions if partition.lag]
        lines.append(f"{link_status.lag:,} records of the source are not copied and would be missing here")
        lines += [
            f"  {partition.source}: {partition.lag:,} records, {partition.lag_s:,.1f} s"
            for partition in behind
        ]
        return lines


def figures(link: Link) -> Figures:
    return Figures(link, status.status(link, timeout_ms=5_000))


def promote(link: Link, figures: Figures) -> list[str]:
    """Ends the link for good; what was done."""
    if figures.status.state != "stopped":
        raise MirrorError(
            f"mirror {link.name} is {figures.status.state}: stop it first (its driver ends within its session time-out "
            "of 45 s), or it would go on copying"
        )
    status.set_control(link, paused=True)
    if link.mode == EXACT:
        from ottla.mirror import exact  # needs the extra arrow

        with Admin(link.target_client) as target:
            return exact.promote(link, target)
    return [
        f"{link.name} is paused for good: its copies at {link.target} are ordinary topics; let clients write there"
    ]
