"""Bank accounts as a log of events: balances are what a replay gives; snapshots make the replay short.

python event_sourcing.py deposit alice 50
python event_sourcing.py transfer alice bob 20
python event_sourcing.py show
"""

import argparse
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import ottla

EVENTS, SNAPSHOTS = "account-events", "account-snapshots"  # one partition: one order of all events
PLACE = ottla.TopicPartition(EVENTS, 0)


class Refused(Exception):
    """A command that the accounts do not allow."""


@dataclass
class Accounts:
    """The state. Only `apply` changes it, and only events reach `apply`."""

    balances: dict[str, int] = field(default_factory=dict)
    next_offset: int = 0

    def apply(self, event: dict[str, Any], offset: int) -> None:
        self.balances[event["account"]] = self.balances.get(event["account"], 0) + event["amount"]
        self.next_offset = offset + 1

    # Commands decide; they change nothing.

    def deposit(self, account: str, amount: int) -> list[dict[str, Any]]:
        if amount <= 0:
            raise Refused("a deposit is more than nothing")
        return [{"event": "deposited", "account": account, "amount": amount}]

    def withdraw(self, account: str, amount: int) -> list[dict[str, Any]]:
        if not 0 < amount <= self.balances.get(account, 0):
            raise Refused(f"{account} has {self.balances.get(account, 0)}, not {amount}")
        return [{"event": "withdrawn", "account": account, "amount": -amount}]

    def transfer(self, sender: str, receiver: str, amount: int) -> list[dict[str, Any]]:
        return [*self.withdraw(sender, amount), *self.deposit(receiver, amount)]


class Bank:
    """The one writer: a second one with the same transactional id fences the first."""

    def __init__(self, bootstrap: str, snapshot_every: int = 100) -> None:
        self._snapshot_every = snapshot_every
        self._producer = ottla.Producer(bootstrap_servers=bootstrap, transactional_id="bank")
        self._producer.init_transactions()  # from here on an earlier bank can write no more
        self.accounts, self.replayed = rebuild(bootstrap)
        self._snapshot_at = self.accounts.next_offset

    def __enter__(self) -> "Bank":
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()

    def run(self, command: str, *arguments: Any) -> None:
        """All events of a command in one transaction; the state follows once they are in the log."""
        self._append(getattr(self.accounts, command)(*arguments))
        if self.accounts.next_offset - self._snapshot_at >= self._snapshot_every:
            self._snapshot()

    def _append(self, events: Iterable[dict[str, Any]]) -> None:
        self._producer.begin_transaction()
        try:
            sent = [(self._producer.send(EVENTS, json.dumps(event), partition=0), event) for event in events]
            offsets = [(future.result(30).offset, event) for future, event in sent]
            self._producer.commit_transaction()
        except ottla.OttlaError:
            self._producer.abort_transaction()
            raise
        for offset, event in offsets:
            self.accounts.apply(event, offset)

    def _snapshot(self) -> None:
        self._producer.begin_transaction()
        state = {"balances": self.accounts.balances, "next_offset": self.accounts.next_offset}
        self._producer.send(SNAPSHOTS, json.dumps(state), key="accounts").result(30)
        self._producer.commit_transaction()
        self._snapshot_at = self.accounts.next_offset


def rebuild(bootstrap: str, *, use_snapshot: bool = True) -> tuple[Accounts, int]:
    """The accounts from the log, and how many events that took."""
    accounts = _last_snapshot(bootstrap) if use_snapshot else Accounts()
    count = 0
    with _reader(bootstrap) as consumer:
        consumer.assign([PLACE])
        consumer.seek(PLACE, accounts.next_offset)
        end = consumer.end_offsets([PLACE])[PLACE]
        while consumer.position(PLACE) < end:
            for record in consumer.poll(1):
                accounts.apply(json.loads(record.value), record.offset)
                count += 1
    return accounts, count


def _last_snapshot(bootstrap: str) -> Accounts:
    place = ottla.TopicPartition(SNAPSHOTS, 0)
    found = Accounts()
    with _reader(bootstrap) as consumer:
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            for record in consumer.poll(1):
                found = Accounts(**json.loads(record.value))
    return found


def _reader(bootstrap: str) -> ottla.Consumer:
    return ottla.Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    )


def create_topics(bootstrap: str) -> None:
    with ottla.Admin(bootstrap_servers=bootstrap) as admin:
        present = admin.list_topics()
        if EVENTS not in present:
            admin.create_topic(EVENTS, partitions=1, configs={"retention.ms": "-1"})
        if SNAPSHOTS not in present:
            admin.create_topic(SNAPSHOTS, partitions=1, configs={"cleanup.policy": "compact"})


def main() -> None:
    parser = argparse.ArgumentParser(description="accounts as a log of events")
    parser.add_argument("command", choices=("deposit", "withdraw", "transfer", "show"))
    parser.add_argument("words", nargs="*")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    arguments = parser.parse_args()
    create_topics(arguments.bootstrap)
    with Bank(arguments.bootstrap) as bank:
        if arguments.command != "show":
            *names, amount = arguments.words
            bank.run(arguments.command, *names, int(amount))
        for account, balance in sorted(bank.accounts.balances.items()):
            print(f"{account:12} {balance:8}")


if __name__ == "__main__":
    main()
