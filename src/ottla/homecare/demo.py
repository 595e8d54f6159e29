"""`ottla homecare demo`: a broker, devices, pipelines, trouble if wanted, and a verdict against what is true."""

import argparse
import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.errors import OttlaError
from ottla.homecare import topics
from ottla.homecare.client import Client, client_of
from ottla.homecare.console import Console, is_installed
from ottla.homecare.mirrored import MIRROR_AWAY_MS, Edge
from ottla.homecare.processes import Process
from ottla.homecare.results import Results
from ottla.homecare.rules import Rules
from ottla.homecare.servers import Servers
from ottla.homecare.simulator import add_plan, plan_of
from ottla.homecare.truth import Expected
from ottla.homecare.verdict import Verdict
from ottla.homecare.view import View
from ottla.homecare.world import Plan

if TYPE_CHECKING:
    from ottla.homecare.secure import Secured

_LIVE_S, _PLAIN_S = 0.5, 5.0
_GRACE_S = 60.0
_START_S = 240.0  # on a busy machine Spark takes its time to start
_SETTLE_S = 3.0  # after all is right: whatever would come twice has time to come
_BROKER_AWAY_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_plan(parser)
    parser.add_argument("--chaos", action="store_true", help="kill the broker and the driver in the middle")
    parser.add_argument(
        "--kills", type=int, default=1, metavar="N", help="with --chaos: of the driver (default: 1)"
    )
    parser.add_argument(
        "--brokers", type=int, default=1, metavar="N", help="a cluster of so many over ZooKeeper (default: 1)"
    )
    parser.add_argument(
        "--mirrored",
        action="store_true",
        help="devices send to a broker of their own; ottla mirror copies their topics to where the pipelines read",
    )
    parser.add_argument("--bootstrap", help="use these brokers (Apache Kafka, say) instead of an own one")
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="with --bootstrap: client settings, name=value lines (TLS, a login)",
    )
    parser.add_argument(
        "--secure",
        action="store_true",
        help="TLS, users and rules for the brokers and everything that uses them",
    )
    parser.add_argument(
        "--clean", action="store_true", help="with --bootstrap: delete what an earlier run left"
    )
    parser.add_argument("--master", help="a Spark master (default: Spark in a process of this machine)")
    parser.add_argument("--partitions", type=int, default=4, help="of the topics with the most records")
    parser.add_argument(
        "--open", action="store_true", help="open the console's home care board in the browser"
    )
    parser.add_argument("--no-console", action="store_true", help="only this text, no pages in the browser")
    parser.add_argument("--keep", metavar="DIR", help="keep data, logs, truth and table in this folder")


def run(arguments: argparse.Namespace) -> int:
    if arguments.secure and arguments.bootstrap:
        raise OttlaError("--secure is for brokers of the demo; for others give --command-config")
    if arguments.mirrored and (arguments.secure or arguments.bootstrap):
        raise OttlaError(
            "--mirrored is for brokers of the demo without --secure; see ottla mirror --help for others"
        )
    folder = Path(arguments.keep or tempfile.mkdtemp(prefix="ottla-homecare-"))
    folder.mkdir(parents=True, exist_ok=True)
    demo = Demo(arguments, folder.absolute())
    try:
        verdict = demo.run()
    finally:
        demo.close()
    if verdict.is_right and not arguments.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"data, logs, truth and table are in {folder}")
    return 0 if verdict.is_right else 1


class Demo:
    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self._arguments, self._folder = arguments, folder
        self._plan: Plan = plan_of(arguments)
        self._view = View()
        self._servers: Servers | None = None
        self._secured: Secured | None = None
        self._simulator: Process | None = None
        self._pipelines: Process | None = None
        self._console: Console | None = None
        self._edge: Edge | None = None
        self._client: Client = client_of(arguments) if arguments.bootstrap else {}
        self._drawn = 0.0
        self._chaos_over = threading.Event()
        self._ending = threading.Event()

    def run(self) -> Verdict:
        plan = self._plan
        self._view.say(
            f"{plan.devices:,} devices, {plan.rate:g} messages a second each, "
            f"{plan.seconds:g} seconds, seed {plan.seed}"
        )
        self._start_servers()
        topics.create(self._client, self._arguments.partitions)
        if self._arguments.mirrored:
            self._edge = Edge(self._folder / "edge", self._client)
            self._edge.start(self._arguments.partitions)
            self._view.say(f"devices send to {self._edge.bootstrap}; their topics are mirrored")
        self._view.say(
            f"broker at {self._client['bootstrap.servers']}, {len(topics.TOPICS)} topics; "
            "Spark starts, devices begin to send"
        )
        self._start_console()
        self._start_pipelines()
        if self._arguments.chaos:
            # Trouble must come in the middle of the stream, however long Spark takes to start.
            self._watch_until(lambda: all(self._view.jobs[name].batches for name in ("technician", "nurse")))
        self._start_simulator()
        if self._arguments.chaos:
            threading.Thread(target=self._make_trouble, daemon=True).start()
        else:
            self._chaos_over.set()
        self._watch_until(lambda: self._truth_file.exists() and self._chaos_over.is_set())
        return self._settle(Expected.load(self._truth_file))

    def close(self) -> None:
        self._ending.set()
        for process in (self._simulator, self._pipelines):
            if process is not None:
                process.kill()
        if self._console is not None:
            self._console.close()
        if self._edge is not None:
            self._edge.close()
        if self._servers is not None:
            self._servers.close()

    # -- processes ---------------------------------------------------------------------------------

    @property
    def _truth_file(self) -> Path:
        return self._folder / "truth.json"

    def _start_servers(self) -> None:
        if self._arguments.bootstrap:
            _prepare(self._client, self._arguments.clean)
            return
        if self._arguments.secure:
            from ottla.homecare.secure import Secured  # needs the extra security

            self._secured = Secured(self._folder / "secure")
        self._servers = Servers(self._arguments.brokers, self._folder, self._secured)
        self._servers.start()
        self._client = {"bootstrap.servers": self._servers.bootstrap}
        if self._secured is not None:
            self._client = self._secured.add_user(self._servers.bootstrap)
            self._view.say(f"all connections are {self._client['security.protocol']}")

    def _where(self) -> list[str]:
        """The options by which a command finds the brokers."""
        config = self._secured.client_file if self._secured is not None else self._arguments.command_config
        bootstrap = ["--bootstrap", self._client["bootstrap.servers"]]
        return [*bootstrap, "--command-config", str(config)] if config else bootstrap

    def _start_console(self) -> None:
        if self._arguments.no_console or not is_installed():
            return
        self._console = Console(self._where(), self._folder / "console.log", self._view.say)
        self._console.start(open_it=self._arguments.open)

    def _start_pipelines(self) -> None:
        command = ["homecare", "pipelines", *self._where(), "--json"]
        command += ["--checkpoints", str(self._folder / "checkpoints")]
        command += ["--master", self._arguments.master] if self._arguments.master else []
        command += _options(self._pipeline_rules)
        log = self._folder / "pipelines.log"
        self._pipelines = Process("pipelines", command, log, self._view.on_pipeline)
        self._pipelines.start()

    def _start_simulator(self) -> None:
        plan = self._plan
        where = self._where() if self._edge is None else ["--bootstrap", self._edge.bootstrap]
        command = ["homecare", "simulate", *where, "--json", "--truth", str(self._truth_file)]
        for name in ("devices", "rate", "seconds", "seed"):
            command += [f"--{name}", str(getattr(plan, name))]
        log = self._folder / "simulator.log"
        self._simulator = Process("simulator", command + _options(plan.rules), log, self._view.on_simulator)
        self._simulator.start()

    @property
    def _pipeline_rules(self) -> Rules:
        """What is true does not depend on the lateness; how long pipelines wait for it does."""
        rules = self._plan.rules
        if not self._arguments.mirrored:
            return rules
        return replace(rules, lateness_ms=rules.lateness_ms + MIRROR_AWAY_MS)

    def _watch_until(self, is_over: Callable[[], bool]) -> None:
        every = _LIVE_S if self._view.is_live else _PLAIN_S
        while not is_over():
            time.sleep(0.1)
            self._check_alive()
            if time.monotonic() - self._drawn >= every:
                self._drawn = time.monotonic()
                self._view.draw()

    def _check_alive(self) -> None:
        mirror = None if self._edge is None else self._edge.mirror
        for process in (self._simulator, self._pipelines, mirror):
            if process is not None and process.exit_code not in (None, 0, -9):
                raise RuntimeError(f"the {process.name} ended; {process.log} ends with:\n{process.tail()}")

    # -- trouble -----------------------------------------------------------------------------------

    def _make_trouble(self) -> None:
        """Kills the broker while everything runs, then the driver. What was promised must hold all the same."""
        try:
            while not self._view.simulator.latest and not self._ending.is_set():
                time.sleep(0.1)
            self._wait_running()
            if self._servers is not None:
                which = "the broker" if self._arguments.brokers == 1 else "a broker"
                self._view.say(f"chaos: kill -9 of {which}")
                self._servers.kill_first()
                time.sleep(_BROKER_AWAY_S)
                self._servers.restart_first()
                self._view.say("chaos: the broker is back")
                self._wait_running()
            for _ in range(self._arguments.kills):
                assert self._pipelines is not None
                self._view.say("chaos: kill -9 of the driver")
                self._pipelines.kill()
                self._start_pipelines()
                self._wait_running()
                self._view.say("chaos: the driver is back")
            if self._edge is not None:
                self._view.say("chaos: kill -9 of the mirror")
                self._edge.restart_mirror()
                self._wait_running()
                self._view.say("chaos: the mirror is back")
        finally:
            self._chaos_over.set()

    def _wait_running(self) -> None:
        """Until every pipeline has done something since now."""
        before = {name: figures.batches for name, figures in self._view.jobs.items()}
        while not self._ending.is_set():
            if all(f.batches >= before[name] + 2 for name, f in self._view.jobs.items() if name != "billing"):
                return
            time.sleep(0.2)

    # -- the end -----------------------------------------------------------------------------------

    def _settle(self, expected: Expected) -> Verdict:
        """All devices are silent now. Waits until that is noticed, or until it is clear that it is not."""
        rules = self._pipeline_rules
        silence_s = (rules.timeout_ms + 2 * rules.lateness_ms) / 1000
        self._view.say(f"all devices are silent; that is noticed after {silence_s:.0f} seconds")
        results = Results(self._client, self._folder / "table")
        patience = Patience(silence_s + _GRACE_S)
        while True:
            verdict = results.judge(expected)
            patience.on_look(verdict.is_right, self._view.batches, time.monotonic())
            if patience.is_over:
                break
            self._watch_until(partial(_is_past, time.monotonic() + 1))
        self._view.draw()
        for line in verdict.lines():
            print(line, flush=True)
        return verdict


class Patience:
    """How long to wait for what is expected: not for ever, but as long as Spark has not even begun."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._deadline: float | None = None
        self._right_since: float | None = None
        self.is_over = False

    def on_look(self, is_right: bool, batches: int, now: float) -> None:
        if self._deadline is None:
            self._deadline = now + _START_S
        if batches and self._deadline > now + self._grace_s:
            self._deadline = now + self._grace_s
        self._right_since = (self._right_since or now) if is_right else None
        settled = self._right_since is not None and now - self._right_since > _SETTLE_S
        self.is_over = settled or now > self._deadline


def _options(rules: Rules) -> list[str]:
    return ["--timeout-ms", str(rules.timeout_ms), "--lateness-ms", str(rules.lateness_ms)]


def _is_past(moment: float) -> bool:
    return time.monotonic() >= moment


def _prepare(client: Client, clean: bool) -> None:
    """Brokers that hold an earlier run would make this one look wrong."""
    with Admin(client) as admin:
        there = [name for name in topics.BY_NAME if name in admin.list_topics()]
        if not there:
            return
        if not clean:
            raise OttlaError(
                f"{client['bootstrap.servers']} has topics of an earlier run ({', '.join(there)}): "
                "--clean deletes them"
            )
        admin.delete_topics(there)
        for group in ("technician", "nurse", "billing"):
            with contextlib.suppress(OttlaError):  # there may be none
                admin.delete_group(f"homecare-{group}")
