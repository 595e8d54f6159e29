"""A queue: workers compete for jobs; a job that fails is tried again later, and then put aside as a dead letter.

python work_queue.py work         # as many as you like
python work_queue.py submit resize photo.jpg
python work_queue.py redrive      # dead letters back into the queue
"""

import argparse
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import ottla

JOBS, RETRIES, DEAD = "jobs", "jobs-retry", "jobs-dead"
TRIES_MAX = 3
BACKOFF_S = 5.0
Job = dict[str, Any]


def submit(producer: ottla.Producer, name: str, **details: Any) -> None:
    """Without a key: any worker may take it."""
    producer.send(JOBS, json.dumps({"job": name, "tries": 0, "not_before": 0, **details})).result(30)


def work(
    bootstrap: str,
    handle: Callable[[Job], object],
    ended: threading.Event,
    backoff_s: float = BACKOFF_S,
    clock: Callable[[], float] = time.time,
) -> None:
    """One worker. A job is done at least once: `handle` should bear to be called twice after a crash."""
    with (
        ottla.Producer(bootstrap_servers=bootstrap) as producer,
        ottla.Consumer(
            bootstrap_servers=bootstrap,
            group_id="workers",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=1,
            group_remote_assignor="range",  # a share of each topic; "uniform" may give all jobs to one worker
        ) as consumer,
    ):
        consumer.subscribe([JOBS, RETRIES])
        while not ended.is_set():
            for record in consumer.poll(0.1):
                job = json.loads(record.value)
                if job["not_before"] > clock():
                    # Retries of one partition are due in their order: what comes after waits too.
                    consumer.seek((record.topic, record.partition), record.offset)
                    ended.wait(min(0.1, backoff_s))
                    continue
                _do(job, handle, producer, backoff_s, clock)
                consumer.commit({ottla.TopicPartition(record.topic, record.partition): record.offset + 1})


def _do(
    job: Job,
    handle: Callable[[Job], object],
    producer: ottla.Producer,
    backoff_s: float,
    clock: Callable[[], float],
) -> None:
    try:
        handle(job)
    except Exception as error:
        job["tries"] += 1
        job["error"] = f"{type(error).__name__}: {error}"
        job["not_before"] = clock() + backoff_s
        topic = RETRIES if job["tries"] < TRIES_MAX else DEAD
        producer.send(topic, json.dumps(job)).result(
            30
        )  # before the commit: a crash here repeats, and loses nothing


def redrive(bootstrap: str) -> int:
    """Dead letters become jobs again, with all their tries; how many."""
    count = 0
    with (
        ottla.Producer(bootstrap_servers=bootstrap) as producer,
        ottla.Consumer(
            bootstrap_servers=bootstrap, group_id="redrive", auto_offset_reset="earliest"
        ) as consumer,
    ):
        places = [ottla.TopicPartition(DEAD, number) for number in consumer.partitions_for(DEAD)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < end for place, end in ends.items()):
            for record in consumer.poll(0.5):
                job = {**json.loads(record.value), "tries": 0, "not_before": 0}
                producer.send(JOBS, json.dumps(job)).result(30)
                count += 1
        consumer.commit()
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description="a queue with retries and dead letters")
    parser.add_argument("what", choices=("work", "submit", "redrive"))
    parser.add_argument("words", nargs="*")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    arguments = parser.parse_args()
    if arguments.what == "submit":
        with ottla.Producer(bootstrap_servers=arguments.bootstrap) as producer:
            submit(producer, arguments.words[0], arguments=arguments.words[1:])
    elif arguments.what == "redrive":
        print(f"{redrive(arguments.bootstrap)} jobs are back in the queue")
    else:
        work(arguments.bootstrap, lambda job: print(job, flush=True), threading.Event())


if __name__ == "__main__":
    main()
