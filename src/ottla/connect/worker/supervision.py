"""A thread for each connector that runs: starts it, and again after a pause when it has failed."""

import logging
import threading
import traceback

from ottla.connect.errors import ConfigError
from ottla.connect.running.base import Run, Runner
from ottla.connect.store.statuses import Status, Statuses
from ottla.connect.tasks.spec import Spec
from ottla.pipelines.errors import BadTopology, StateLost, TakenOver

log = logging.getLogger(__name__)
_FINAL = (ConfigError, BadTopology, StateLost, TakenOver)  # no new start can mend these
_PAUSE_S = (1.0, 60.0)


class Supervision:
    """`stop` ends the run and waits for it."""

    def __init__(
        self,
        spec: Spec,
        tasks: int,
        runner: Runner,
        statuses: Statuses,
        worker_id: str,
        pauses: tuple[float, float] = _PAUSE_S,
    ) -> None:
        self.spec, self.tasks = spec, tasks
        self._runner, self._statuses, self._worker_id = runner, statuses, worker_id
        self._pauses = pauses
        self._stopping = threading.Event()
        self._run_now: Run | None = None
        self._thread = threading.Thread(target=self._run, name=f"connector-{spec.name}", daemon=True)

    def start(self) -> None:
        self._show("RUNNING")
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def stop(self, timeout_s: float = 60) -> None:
        self._stopping.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            log.warning(
                "connector %s has not stopped within %s s; it is left behind", self.spec.name, timeout_s
            )

    def _run(self) -> None:
        failures = 0  # in a row, without a step in between
        while not self._stopping.is_set():
            self._run_now = None
            try:
                self._once()
                failures = 0
            except Exception as error:
                failures = 1 if self._run_has_stepped() else failures + 1
                if not self._failed(error, failures):
                    return

    def _once(self) -> None:
        run = self._run_now = self._runner.start(self.spec, self._stopping)
        if run is None:
            return
        try:
            self._show("RUNNING")
            run.wait(self._stopping)
        finally:
            run.stop()

    def _run_has_stepped(self) -> bool:
        try:
            return self._run_now is not None and self._run_now.has_stepped
        except Exception as error:  # Spark's session may be gone
            log.debug("connector %s: whether it has stepped is not known: %s", self.spec.name, error)
            return False

    def _failed(self, error: Exception, failures: int) -> bool:
        """Whether it is to be started again."""
        trace = "".join(traceback.format_exception(error))
        self._show("FAILED", trace)
        if isinstance(error, _FINAL):
            log.error("connector %s has failed for good: %s", self.spec.name, error)
            return False
        first, most = self._pauses
        pause_s = min(most, first * 2 ** (failures - 1))
        log.warning("connector %s has failed and starts again in %.1f s: %s", self.spec.name, pause_s, error)
        self._stopping.wait(pause_s)
        return not self._stopping.is_set()

    def _show(self, state: str, trace: str | None = None) -> None:
        if self._stopping.is_set():
            return
        self._statuses.set_connector(self.spec.name, Status("RUNNING", self._worker_id))
        status = Status(state, self._worker_id, trace)
        self._statuses.set_tasks(self.spec.name, dict.fromkeys(range(self.tasks), status))
