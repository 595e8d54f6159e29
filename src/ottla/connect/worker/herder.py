"""What can be asked of a worker: every REST call is a method here. Named as in Kafka Connect."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ottla.client.admin import Admin
from ottla.connect import plugins
from ottla.connect.errors import ConnectError
from ottla.connect.running.base import Runner, task_count
from ottla.connect.store import configs
from ottla.connect.store.configs import PAUSED, STARTED, STOPPED, ConfigState, Record
from ottla.connect.store.statuses import Status, Statuses
from ottla.connect.tasks.source import fence
from ottla.connect.tasks.spec import Spec
from ottla.connect.worker.offset_changes import OffsetChanges
from ottla.connect.worker.refusals import bad_request, conflict, no_connector, not_found
from ottla.connect.worker.settings import WorkerSettings
from ottla.connect.worker.supervision import Supervision
from ottla.connect.worker.validation import check_config, infos
from ottla.errors import OttlaError

log = logging.getLogger(__name__)
Config = dict[str, str | None]


class Herder:
    """Threads share it; one change at a time. `write` puts records into the config topic (or nowhere)."""

    def __init__(
        self,
        settings: WorkerSettings,
        runner: Runner,
        statuses: Statuses,
        write: Callable[[list[Record]], None],
        worker_id: str,
        pauses: tuple[float, float] = (1.0, 60.0),
    ) -> None:
        self.settings = settings
        self.state = ConfigState()
        self._runner, self.statuses, self._write, self._worker_id = runner, statuses, write, worker_id
        self._pauses = pauses
        self._running: dict[str, Supervision] = {}
        self._lock = threading.RLock()
        self._changes = OffsetChanges(settings)

    # -- from the outside: what is ------------------------------------------------------------------

    def connectors(self) -> list[str]:
        with self._lock:
            return list(self.state.connectors)

    def config(self, name: str) -> Config:
        try:
            return dict(
                sorted(self.state.connectors[name].items(), key=lambda item: item[0] != "connector.class")
            )
        except KeyError:
            raise no_connector(name) from None

    def info(self, name: str) -> dict[str, Any]:
        config = self.config(name)
        tasks = [{"connector": name, "task": index} for index in range(len(self.state.tasks.get(name, [])))]
        return {"name": name, "config": config, "tasks": tasks, "type": self._kind(config)}

    def status(self, name: str) -> dict[str, Any]:
        status = self.statuses.connectors.get(name)
        if status is None:
            raise not_found(f"No status found for connector {name}")
        tasks = [
            {"id": index, **status.to_answer()}
            for index, status in sorted(self.statuses.tasks.get(name, {}).items())
        ]
        kind = self._kind(self.state.connectors.get(name, {}))
        return {"name": name, "connector": status.to_answer(), "tasks": tasks, "type": kind}

    def tasks(self, name: str) -> list[dict[str, Any]]:
        self.config(name)
        return [
            {"id": {"connector": name, "task": index}, "config": config}
            for index, config in enumerate(self.state.tasks.get(name, []))
        ]

    def task_status(self, name: str, task: int) -> dict[str, Any]:
        status = self.statuses.tasks.get(name, {}).get(task)
        if status is None:
            raise not_found(f"No status found for task {name}-{task}")
        return {"id": task, **status.to_answer()}

    def topics(self, name: str) -> dict[str, Any]:
        return {name: {"topics": self.statuses.topics(name)}}

    def reset_topics(self, name: str) -> None:
        self.statuses.reset_topics(name)

    def validate(self, config: Config) -> dict[str, Any]:
        return infos(config, self.settings.plain)

    # -- from the outside: changes -------------------------------------------------------------------

    def create(self, name: str, config: Config, initial: str = STARTED) -> dict[str, Any]:
        with self._lock:
            check_config(config)
            if name in self.state.connectors:
                raise conflict(f"Connector {name} already exists")
            return self._put(name, config, initial)

    def put(self, name: str, config: Config) -> tuple[bool, dict[str, Any]]:
        """Whether it is new, and what it is now."""
        with self._lock:
            check_config(config)
            is_new = name not in self.state.connectors
            return is_new, self._put(name, config, None)

    def patch(self, name: str, changes: Mapping[str, str | None]) -> dict[str, Any]:
        with self._lock:
            config = {**self.config(name), **changes}
            return self.put(name, {key: value for key, value in config.items() if value is not None})[1]

    def delete(self, name: str) -> None:
        with self._lock:
            self.config(name)
            self._halt(name)
            self._change(configs.removal_records(name))
            self.statuses.remove(name)

    def pause(self, name: str) -> None:
        self._target(name, PAUSED)

    def resume(self, name: str) -> None:
        self._target(name, STARTED)

    def stop(self, name: str) -> None:
        self._target(name, STOPPED)

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> dict[str, Any]:
        with self._lock:
            if name not in self.state.connectors:
                raise not_found(f"Unknown connector: {name}")
            states = [status.state for status in self.statuses.tasks.get(name, {}).values()]
            if "FAILED" in states or not only_failed:
                self._reconcile(name, again=True)
            return self.status(name)

    def restart_task(self, name: str, task: int) -> None:
        with self._lock:
            if name not in self.state.connectors:
                raise not_found(f"Unknown connector: {name}")
            if not 0 <= task < len(self.state.tasks.get(name, [])):
                raise not_found(f"Unknown task: {name}-{task}")
            self._reconcile(name, again=True)

    # -- offsets -------------------------------------------------------------------------------------

    def offsets(self, name: str) -> dict[str, Any]:
        return {"offsets": self._changes.read(self.spec(name))}

    def alter_offsets(self, name: str, offsets: list[tuple[dict[str, Any], dict[str, Any] | None]]) -> str:
        with self._lock:
            spec = self._stopped(name)
            if not offsets:
                raise bad_request("Partitions / offsets need to be provided for an alter offsets request")
            return self._changes.alter(spec, offsets)

    def reset_offsets(self, name: str) -> str:
        with self._lock:
            return self._changes.reset(self._stopped(name))

    def _stopped(self, name: str) -> Spec:
        spec = self.spec(name)
        if self.state.target(name) != STOPPED:
            raise bad_request(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
            )
        return spec

    # -- life ----------------------------------------------------------------------------------------

    def load(self, records: list[Record]) -> None:
        """The config topic's records; then everything runs that is to run."""
        with self._lock:
            for key, value in records:
                self.state.apply(key, value)
            for name in self.state.connectors:
                self._fence_former_tasks(name)
                self._reconcile(name)

    def close(self) -> None:
        with self._lock:
            for running in self._running.values():
                running.ask_to_stop()
            for name in list(self._running):
                self._halt(name)
                self._show(name, "UNASSIGNED")  # until another worker takes it up
            self._changes.close()

    # -- inside --------------------------------------------------------------------------------------

    def _fence_former_tasks(self, name: str) -> None:
        """Tasks of a Java worker that may still run somewhere: their transactional ids are numbered as ours, but by
        task, so a lane of ours would not meet them."""
        try:
            spec = self.spec(name)
            if spec.kind == "source":
                fence(spec, range(len(self.state.tasks.get(name, []))))
        except (ConnectError, OttlaError) as error:
            log.warning("former tasks of connector %s could not be fenced: %s", name, error)

    def _put(self, name: str, config: Config, initial: str | None) -> dict[str, Any]:
        before = self.info(name)["tasks"] if name in self.state.connectors else []
        records = [configs.connector_record(name, {**config, "name": name})]
        if initial not in (None, STARTED):
            records.insert(0, configs.target_record(name, str(initial)))
        self._change(records)
        self._reconcile(name, again=True)
        return {"name": name, "config": {**config, "name": name}, "tasks": before, "type": self._kind(config)}

    def _target(self, name: str, state: str) -> None:
        with self._lock:
            if name not in self.state.connectors:
                raise not_found(f"Unknown connector {name}")
            if self.state.target(name) != state:
                self._change([configs.target_record(name, state)])
                self._reconcile(name)

    def _change(self, records: list[Record]) -> None:
        """Written first: what is not in the topic has not happened."""
        self._write(records)
        for key, value in records:
            self.state.apply(key, value)

    def _reconcile(self, name: str, *, again: bool = False) -> None:
        """Brings a connector to its target state. One that cannot be, of a class of Java's say, is shown as failed."""
        try:
            self._bring(name, again)
        except Exception as error:
            log.warning("connector %s cannot start: %s", name, error)
            trace = f"{type(error).__name__}: {error}"
            self.statuses.set_connector(name, Status("FAILED", self._worker_id, trace))

    def _bring(self, name: str, again: bool) -> None:
        target = self.state.target(name)
        if again or target != STARTED:
            self._halt(name)
        if target == STARTED and name not in self._running:
            self._start(name)
        elif target == PAUSED:
            self._plan_tasks(name, task_count)
            self._show(name, "PAUSED")
        elif target == STOPPED:
            self._plan_tasks(name, lambda _: 0)
            self._show(name, "STOPPED")

    def _start(self, name: str) -> None:
        spec = self.spec(name)
        spec.check()
        count = self._plan_tasks(name, task_count)
        running = Supervision(spec, count, self._runner, self.statuses, self._worker_id, self._pauses)
        self._running[name] = running
        running.start()

    def _plan_tasks(self, name: str, count_of: Callable[[Spec], int]) -> int:
        """As many task configs as there are to be, in the topic as Java has them."""
        spec = self.spec(name)
        count = count_of(spec)
        task = {**self.state.connectors[name], "task.class": _task_class(spec)}
        if self.state.tasks.get(name) != [task] * count:
            self._change(configs.task_records(name, [dict(task) for _ in range(count)]))
        return count

    def _halt(self, name: str) -> None:
        running = self._running.pop(name, None)
        if running is not None:
            running.stop()

    def _show(self, name: str, state: str) -> None:
        status = Status(state, self._worker_id)
        self.statuses.set_connector(name, status)
        self.statuses.set_tasks(name, dict.fromkeys(range(len(self.state.tasks.get(name, []))), status))

    def spec(self, name: str) -> Spec:
        if name not in self.state.connectors:
            raise no_connector(name)
        return Spec(name, self.state.connectors[name], self.settings.plain)

    def _kind(self, config: Mapping[str, Any]) -> str:
        try:
            return plugins.of(config).kind
        except ConnectError:
            return "unknown"

    def cluster_id(self) -> str:
        with Admin(self.settings.client()) as admin:
            return admin.describe_cluster().id or ""


def _task_class(spec: Spec) -> str:
    """Java's connectors of files have classes for tasks; ours are their own."""
    name = spec.plugin.names[0]
    return name.removesuffix("Connector") + "Task" if name.endswith("Connector") else name
