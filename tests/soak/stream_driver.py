"""A driver to be killed: a stream application with joins, windows and repartitioning. Its workers die now and then.

python -m tests.soak.stream_driver BOOTSTRAP FOLDER CHANCE [MASTER]
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from functools import partial
from typing import Any

from ottla import pipelines
from ottla.pipelines import Pipeline
from ottla.streams import App, string, tumbling, within
from tests.soak.pipeline_driver import mortal

NAME, WORDS, CLASSES = "soak-streams", "stream-words", "stream-classes"
COUNTS, WINDOWS, JOINED, PAIRS = "stream-counts", "stream-windows", "stream-joined", "stream-pairs"
HOUR = 3600.0


def application(bootstrap: str) -> App:
    """Words under ids of their own. Each comes out in every count, in one window, once with its class, once paired."""
    app = App(NAME, bootstrap, default_api_timeout_ms=20_000)
    classes = app.table(CLASSES, value=string, name="classes")
    words = app.stream(WORDS, value=string)
    by_word = words.select_key(lambda number, word: word)
    counts = by_word.group_by_key().count(name="counts")
    counts.to_stream().map(lambda word, n: (word, f"{word} {n}"), value=string).to(COUNTS)
    windows = by_word.group_by_key().window(tumbling(seconds=1, grace=HOUR)).count(name="windows")
    windows.to_stream().map(lambda key, n: (key.key, f"{key.key}@{key.start} {n}"), value=string).to(WINDOWS)
    by_word.join(classes, lambda word, kind: word, string, name="classed").to(JOINED)
    left, right = (
        words.select_key(lambda number, _: number),
        words.map(lambda n, word: (n, word), value=string),
    )
    pairs = left.join(right, lambda a, b: a, string, within=within(seconds=10, grace=HOUR), name="paired")
    pairs.map(lambda number, _: (number, number), value=string).to(PAIRS)
    return app


def pipeline(bootstrap: str, folder: str, chance: float) -> Pipeline:
    plain = application(bootstrap).pipeline(state_dir=f"{folder}/state")
    stages = [
        replace(stage, operator=partial(mortal, stage.operator, chance, folder)) for stage in plain.stages
    ]
    return replace(plain, stages=tuple(stages))


def main(bootstrap: str, folder: str, chance: str, master: str = "") -> None:
    import ottla.spark

    settings: dict[str, Any] | None = {"spark.master": master} if master else None
    spark = ottla.spark.session("streams soak", cores=2, settings=settings)
    spark.sparkContext.setLogLevel("OFF")
    pipelines.run(
        pipeline(bootstrap, folder, float(chance)), spark, restarts_max=1_000, tasks=random.randint(1, 3)
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
