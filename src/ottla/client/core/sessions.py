"""Fetch sessions: after the first request a broker is told only what changed. No I/O."""

from dataclasses import dataclass, field

from ottla.client.values import TopicPartition

Wanted = tuple[int, int, int]  # fetch offset, leader epoch, epoch of the last record read


@dataclass(slots=True)
class FetchSession:
    """What one broker remembers of our wishes, and under which id and epoch."""

    id: int = 0
    epoch: int = 0
    known: dict[TopicPartition, Wanted] = field(default_factory=dict)
    topic_ids: dict[str, bytes] = field(default_factory=dict)

    def plan(
        self, wanted: dict[TopicPartition, Wanted], topic_ids: dict[str, bytes]
    ) -> tuple[dict[TopicPartition, Wanted], list[TopicPartition]]:
        """The partitions to send and those to forget; takes note of them as told."""
        if any(self.topic_ids.get(name, topic_id) != topic_id for name, topic_id in topic_ids.items()):
            self.reset()  # a topic was re-created: the broker's session is about the deleted one
        self.topic_ids.update(topic_ids)
        send = {p: w for p, w in wanted.items() if self.known.get(p) != w}
        forget = [p for p in self.known if p not in wanted]
        self.known = dict(wanted)
        return send, forget

    def answered(self, session_id: int) -> None:
        if session_id == 0:  # the broker has no room for a session: everything is told every time
            self.reset()
            return
        self.epoch = 1 if session_id != self.id or self.epoch == 0x7FFFFFFF else self.epoch + 1
        self.id = session_id

    def reset(self) -> None:
        self.id = self.epoch = 0
        self.known = {}
        self.topic_ids = {}
