"""A broker process in the world: every part of the real one but sockets, threads and the event loop."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import TypeVar

from ottla.broker.assembly import METADATA_FOLDER, Assembly
from ottla.broker.requests.dispatch import Dispatcher
from ottla.broker.routes import FEATURES
from ottla.config.settings import Config
from ottla.errors import KafkaStorageError
from ottla.metadata import membership
from ottla.metadata.controller import Controller
from ottla.metadata.decision import Decision
from ottla.metadata.journal import Journal
from ottla.metadata.records import ClusterCreated, Endpoint, FeatureSet, Record
from ottla.storage.files import FileCache
from ottla.storage.folder import LogFolder
from ottla.storage.memory import MemoryDisk
from ottla.testing.world.time import ProcessClock, Time

T = TypeVar("T")


class SimulatedJobs:
    """Threads: a job begins a little later, and what it returns arrives later still."""

    def __init__(self, clock: ProcessClock, random: Random) -> None:
        self._clock, self._random = clock, random
        self.at_once = True  # while the process starts: nobody is served yet

    def submit(self, job: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        if self.at_once:
            done(_result(job))
            return
        slow = self._random.random() < 0.25

        def run() -> None:
            result = _result(job)
            self._clock.call_later(self._random.uniform(0, 5), lambda: done(result))

        self._clock.call_later(self._random.uniform(0, 300 if slow else 10), run)

    def aside(self, work: Callable[[], None], then: Callable[[OSError | None], None]) -> None:
        def finished(result: object) -> None:
            if isinstance(result, Exception) and not isinstance(result, OSError):
                raise result
            then(result)  # type: ignore[arg-type]

        self.submit(work, finished)


def _result(job: Callable[[], T]) -> T | Exception:
    try:
        return job()
    except Exception as error:
        return error


class Process:
    """Starts on what is on the disk. `reports` are the lines that a real one would log."""

    def __init__(self, config: Config, disk: MemoryDisk, time: Time, random: Random) -> None:
        self._random = random
        self.clock = ProcessClock(time)
        self.jobs = SimulatedJobs(self.clock, random)
        self.reports: list[str] = []
        self.stopped_cleanly = False
        self.folder = LogFolder(
            disk, "disk", files=FileCache(), report=self.reports.append, on_offline=self._on_offline
        )
        self._journal = Journal(disk, METADATA_FOLDER, run_aside=self.jobs.aside, report=self.reports.append)
        controller = Controller(config.node_id, self._journal, config)
        controller.open()
        self._create_cluster(controller)
        self.folder.meta(controller.image.cluster_id, config.node_id, random.randbytes(16))
        assembly = Assembly(config, self.clock, self.jobs, random)
        self._replicas = assembly.replicas(controller.image, [self.folder])
        self._open_logs()
        self.broker = assembly.broker(controller, self._replicas)
        self.dispatcher = Dispatcher(self.broker, self.broker.metrics)
        self._join(config)
        self.broker.housekeeping.start()
        self.jobs.at_once = False

    @property
    def is_useless(self) -> bool:
        """Its only disk failed: somebody has to restart it."""
        return self.folder.is_offline

    def stop(self) -> None:
        """Cleanly."""
        self.broker.close()
        with suppress(KafkaStorageError):  # then it was not clean, and the next start will see that
            self.folder.close()
            self.stopped_cleanly = True
        self.kill()

    def kill(self) -> None:
        self.clock.close()
        self._journal.close()

    def _create_cluster(self, controller: Controller) -> None:
        if controller.image.cluster_id:
            return
        features = [FeatureSet(name, high) for name, (_, high) in FEATURES.items()]
        records: tuple[Record, ...] = (ClusterCreated("w" * 22), *features)
        controller.submit(lambda image, config: Decision(records, None), lambda answer: None)

    def _open_logs(self) -> None:
        openings = self._replicas.openings()
        for opening in openings:
            opening.run()
            self._replicas.adopt(opening)
        self._replicas.start()

    def _join(self, config: Config) -> None:
        registration = membership.Registration(
            config.node_id,
            self._random.randbytes(16),
            (Endpoint("PLAINTEXT", "broker", 9092),),
            None,
            clean=self.folder.was_clean,
            ready=True,
            directories=(),
        )
        self._journal.register(config.node_id, membership.encode(registration))
        assert self.broker.image.may_lead(config.node_id), "the metadata log refused this broker"
        self.broker.on_joined()

    def _on_offline(self, folder: LogFolder, error: OSError) -> None:
        self.clock.call_soon(lambda: self._replicas.on_folder_offline(folder))
