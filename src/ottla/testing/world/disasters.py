"""What befalls a world: processes die, power fails, disks fill and break, leaders move, clients come and go."""

from __future__ import annotations

import errno
from random import Random
from typing import TYPE_CHECKING

from ottla.broker.assembly import METADATA_FOLDER
from ottla.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.testing.world.process import Process
from ottla.wire import batch as batches

TILLS = 2

if TYPE_CHECKING:
    from ottla.testing.world.world import World

WEIGHTS = {
    "kill": 3,
    "power_cut": 6,
    "clean_restart": 2,
    "move_leader": 4,
    "move_coordinator": 4,
    "append_fails": 2,
    "sync_fails": 1,
    "disk_is_full": 2,
    "client_dies": 4,
    "member_comes": 8,
    "till_comes": 5,
    "connections_break": 4,
}


class Disasters:
    def __init__(self, world: World) -> None:
        self._world = world
        self._over = False

    def begin(self) -> None:
        self._plan()

    def end(self) -> None:
        """Calm: the disk is well, and the broker runs."""
        self._over = True
        world = self._world
        world.disk.clear_faults()
        world.disk.capacity_bytes = None
        if world.process is not None and world.process.is_useless:
            self._kill()
        if world.process is None:
            world.start()

    def _plan(self) -> None:
        self._world.time.call_later(self._world.random.uniform(200, 3_000), self._strike)

    def _strike(self) -> None:
        if self._over:
            return
        world = self._world
        if world.process is None:
            world.start()
        elif world.process.is_useless:
            self._kill()
        else:
            name = world.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            world.note(name)
            getattr(self, f"_{name}")()
        self._plan()

    # -- the broker --------------------------------------------------------------------------------------

    def _kill(self) -> None:
        """The page cache survives."""
        self._world.stop(Process.kill)
        self._world.disk.crash(lose_unsynced=False)

    def _power_cut(self) -> None:
        """At the worst moments: somebody was just told that all is well, or something is not synced yet."""
        match self._world.random.randrange(3):
            case 0:
                self._cut_power()
            case 1:
                self._world.ledger.on_told = self._cut_power_now
            case _:
                self._cut_power_when_unsynced(2_000)

    def _cut_power_when_unsynced(self, tries: int) -> None:
        process = self._world.process
        if process is None or self._over:
            return
        unsynced = any(log.end_offset > log.recovery_point for _, _, log in process.broker.replicas.logs())
        if unsynced or not tries:
            self._cut_power()
        else:
            self._world.time.call_later(5, lambda: self._cut_power_when_unsynced(tries - 1))

    def _cut_power_now(self) -> None:
        self._world.ledger.on_told = lambda: None
        self._world.time.call_later(0, self._cut_power)  # not within the client's own step

    def _cut_power(self) -> None:
        world = self._world
        world.ledger.on_told = lambda: None
        if self._over or world.process is None:
            return
        if not world.careful:
            self._kill()
            return
        world.stop(Process.kill)
        before = {path: world.disk.read_whole(path) for path in self._log_files()}
        world.disk.crash(lose_unsynced=True)
        for path, data in before.items():
            if world.disk.exists(path) and world.random.random() < 0.5:
                self._tear(path, data)

    def _tear(self, path: str, before: bytes) -> None:
        """Some of what was not synced reached the disk all the same, and not all of it in one piece; or old
        blocks show up behind the end, which look like a batch and are none."""
        disk, random = self._world.disk, self._world.random
        synced = disk.size(path)
        lost = bytearray(before[synced:])
        if not lost:
            lost = _stale_batch(before, random)
        else:
            del lost[random.choice([len(lost), random.randint(0, len(lost))]) :]
            if lost and random.random() < 0.5:
                # Near the end: offset and epoch, at the start of a batch, are not under its CRC.
                lost[-1 - random.randrange(min(8, len(lost)))] ^= 1 << random.randrange(8)
        disk.tear(path, synced, bytes(lost))

    def _log_files(self) -> list[str]:
        """Those being written to: a closed segment was synced with its size."""
        disk = self._world.disk
        suspects = []
        for folder in disk.list(""):
            segments = [name for name in disk.list(folder) if name.endswith(".log")]
            if segments and folder != METADATA_FOLDER:
                suspects.append(f"{folder}/{segments[-1]}")
        return suspects

    def _clean_restart(self) -> None:
        process = self._world.process
        assert process is not None
        self._world.stop(Process.stop)
        power_fails = process.stopped_cleanly and self._world.random.random() < 0.5
        self._world.disk.crash(lose_unsynced=power_fails)

    # -- the disk ----------------------------------------------------------------------------------------

    def _append_fails(self) -> None:
        random = self._world.random
        self._world.disk.fail(
            "append",
            after=random.randint(0, 5),
            times=random.randint(1, 3),
            partial=random.choice([0, random.randint(1, 200)]),
        )

    def _sync_fails(self) -> None:
        self._world.disk.fail("sync", OSError(errno.EIO, "sync failed"), times=1)

    def _disk_is_full(self) -> None:
        disk = self._world.disk
        disk.capacity_bytes = disk.used_bytes + self._world.random.randint(0, 500)

        def heal() -> None:
            disk.capacity_bytes = None

        self._world.time.call_later(self._world.random.uniform(100, 3_000), heal)

    # -- leaders -----------------------------------------------------------------------------------------

    def _move_leader(self) -> None:
        name = self._world.some_partition(self._world.random.choice(["plain", "money"]))
        self._world.move_leader(name, self._world.random.choice([0, 0, 500]))

    def _move_coordinator(self) -> None:
        assert self._world.process is not None
        topic = self._world.random.choice([CONSUMER_OFFSETS, TRANSACTION_STATE])
        known = self._world.process.broker.image.topics.get(topic)
        if known is not None:
            index = self._world.random.randrange(len(known.partitions))
            self._world.move_leader((topic, index), self._world.random.choice([0, 0, 500]))

    # -- clients -----------------------------------------------------------------------------------------

    def _client_dies(self) -> None:
        mortal = [
            client
            for client in self._world.clients
            if not client.is_done and client.name.startswith(("member-", "till-"))
        ]
        if mortal:
            self._world.random.choice(mortal).kill()

    def _member_comes(self) -> None:
        self._world.new_member()

    def _till_comes(self) -> None:
        self._world.new_till(self._world.random.randrange(TILLS))

    def _connections_break(self) -> None:
        for connection in list(self._world.connections):
            if self._world.random.random() < 0.5:
                connection.close()


def _stale_batch(data: bytes, random: Random) -> bytearray:
    """The last batch once more, as if it came next, with a broken byte in it."""
    headers = list(batches.headers(data))
    if not headers:
        return bytearray()
    position, header = headers[-1]
    stale = bytearray(data[position : position + header.size])
    batches.stamp(stale, base_offset=header.next_offset, leader_epoch=header.leader_epoch)
    stale[random.randrange(batches.HEADER_BYTES, len(stale))] ^= 1 << random.randrange(8)
    return stale
