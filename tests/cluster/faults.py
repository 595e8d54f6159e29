"""Things that happen to a cluster of processes, one at a time, each undone before the next."""

import time


class Faults:
    def __init__(self, cluster, chance, zookeeper=True):
        self.cluster, self._chance, self.history = cluster, chance, []
        self._kinds = [
            self.kill_leader,
            self.kill_follower,
            self.kill_controller,
            self.pause_leader,
            self.pause_controller,
            self.isolate,
            self.cut_from_zookeeper,
            self.stop_cleanly,
        ] + ([self.kill_zookeeper] if zookeeper else [])

    def one(self):
        kind = self._chance.choice(self._kinds)
        self.history.append(kind.__name__)
        self.cluster.until_in_sync()
        kind()

    def heal(self):
        for broker_id in self.cluster.ids:
            self.cluster.heal(broker_id)

    def kill_leader(self):
        self._kill(self.cluster.leader())

    def kill_follower(self):
        leader = self.cluster.leader()
        self._kill(self._chance.choice([each for each in self.cluster.ids if each != leader]))

    def kill_controller(self):
        self._kill(self.cluster.controller())

    def _kill(self, broker_id):
        self.cluster.kill(broker_id)
        time.sleep(self._chance.uniform(0, 1))
        self.cluster.start(broker_id)

    def stop_cleanly(self):
        broker_id = self._chance.choice(self.cluster.ids)
        self.cluster.stop(broker_id)
        self.cluster.start(broker_id)

    def pause_leader(self):
        self._pause(self.cluster.leader())

    def pause_controller(self):
        self._pause(self.cluster.controller())

    def _pause(self, broker_id):
        """Longer than its session: it wakes up as a zombie."""
        self.cluster.pause(broker_id)
        time.sleep(self._chance.uniform(3.5, 5))
        self.cluster.resume(broker_id)

    def isolate(self):
        broker_id = self._chance.choice(self.cluster.ids)
        self.cluster.isolate(broker_id)
        time.sleep(self._chance.uniform(0.5, 4))
        self.cluster.heal(broker_id)

    def cut_from_zookeeper(self):
        broker_id = self._chance.choice(self.cluster.ids)
        self.cluster.cut_from_zookeeper(broker_id)
        time.sleep(self._chance.uniform(1, 5))
        self.cluster.heal(broker_id)

    def kill_zookeeper(self):
        self.cluster.zookeepers.kill()
        time.sleep(self._chance.uniform(0, 2))
        self.cluster.zookeepers.restart()
