"""The controller's lease in ZooKeeper over a connection that breaks."""

import asyncio

import pytest

from ottla.server.zookeeper.lease import Lease
from ottla.server.zookeeper.paths import Paths
from ottla.server.zookeeper.protocol import Acl, Disconnected, Node, Op

PATHS = Paths("/ottla")
BROKER, EPOCH = 1, 7


class Ensemble:
    """A session in which `broken` requests fail; `arrives` says whether they are carried out nevertheless."""

    session_id = 55
    timeout_ms = 6000
    heard_at = 0.0

    def __init__(self):
        self.nodes = {
            PATHS.controller: Node(str(BROKER).encode(), 0, self.session_id),
            PATHS.epoch: Node(b"", EPOCH, 0),
        }
        self.broken = set()
        self.arrives = False

    async def get(self, path):
        self._answer("get")
        return self.nodes.get(path)

    async def get_many(self, paths):
        return [self.nodes.get(path) for path in paths]

    async def multi(self, part):
        assert part.op == Op.DELETE
        if "delete" not in self.broken or self.arrives:
            del self.nodes[PATHS.controller]
        self._answer("delete")

    def _answer(self, request):
        if request in self.broken:
            self.broken.remove(request)
            raise Disconnected("the connection to ZooKeeper broke")


class Controller:
    def __init__(self):
        self.leases = []

    def on_lease(self, holder, epoch):
        self.leases.append((holder, epoch))


@pytest.fixture
def ensemble():
    return Ensemble()


@pytest.fixture
def controller():
    return Controller()


@pytest.fixture
def lease(ensemble, controller):
    lease = Lease(BROKER, PATHS, Acl())
    lease.begin(controller)
    asyncio.run(lease.settle(ensemble))
    assert lease.holds(EPOCH)
    assert controller.leases == [(BROKER, EPOCH)]
    return lease


def resign_over_a_broken_connection(lease, ensemble):
    async def scenario():
        lease.resigns = True
        with pytest.raises(Disconnected):
            await lease.settle(ensemble)
        lease.is_stale = True  # as after every connection
        await lease.settle(ensemble)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("request_that_breaks", "arrives"), [("get", False), ("delete", False), ("delete", True)]
)
def test_a_resignation_that_meets_a_broken_connection_is_carried_out_by_the_next(
    lease, ensemble, controller, request_that_breaks, arrives
):
    ensemble.broken, ensemble.arrives = {request_that_breaks}, arrives
    resign_over_a_broken_connection(lease, ensemble)
    assert PATHS.controller not in ensemble.nodes
    assert not lease.holds(EPOCH)
    assert not lease.resigns
    assert controller.leases[1:] == [(None, EPOCH)]


def test_a_controller_that_resigned_hears_who_leads_although_the_silence_had_cost_the_lease(
    lease, ensemble, controller
):
    async def scenario():
        ensemble.heard_at = asyncio.get_running_loop().time() - ensemble.timeout_ms
        lease.maybe_suspend(ensemble)
        assert controller.leases[1:] == [(None, EPOCH)]
        lease.resigns = True
        await lease.settle(ensemble)

    asyncio.run(scenario())
    assert controller.leases[2:] == [(None, EPOCH)]


def test_a_resignation_leaves_the_lease_of_another_broker_alone(lease, ensemble, controller):
    ensemble.broken = {"get"}
    ensemble.nodes[PATHS.controller] = Node(b"2", 0, 66)
    ensemble.nodes[PATHS.epoch] = Node(b"", EPOCH + 1, 0)
    resign_over_a_broken_connection(lease, ensemble)
    assert PATHS.controller in ensemble.nodes
    assert controller.leases[1:] == [(2, EPOCH + 1)]
