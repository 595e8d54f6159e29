"""Asks both connectors every case, and writes the answers as the table in docs/spark.md.

python -m tests.spark.side_by_side
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.spark.connectors import Scene, Side
from tests.spark.option_cases import CASES, Case

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
BEGIN, END = "<!-- side by side -->\n", "<!-- end of side by side -->"
_AT_ONCE = 4  # most of a case is waiting


@dataclass(frozen=True)
class Answer:
    rows: Any = None
    refused: str | None = None

    def __str__(self) -> str:
        return "rows" if self.refused is None else "refused"

    def is_like(self, other: Answer) -> bool:
        """The same rows, or both refuse: in words of their own."""
        if self.refused is not None or other.refused is not None:
            return self.refused is not None and other.refused is not None
        return bool(self.rows == other.rows)


@dataclass(frozen=True)
class Compared:
    case: Case
    kafka: Answer
    ottla: Answer

    @property
    def same(self) -> bool:
        return self.kafka.is_like(self.ottla)

    def cells(self) -> tuple[str, str, str, str]:
        return self.case.text, str(self.kafka), str(self.ottla), self.case.why


def ask_both(scene: Scene) -> list[Compared]:
    together = [case for case in CASES if not case.alone]
    with ThreadPoolExecutor(_AT_ONCE, initializer=scene.enter_thread) as pool:
        answers = dict(zip(together, pool.map(lambda case: _compare(scene, case), together), strict=True))
    return [answers.get(case) or _compare(scene, case) for case in CASES]


def _compare(scene: Scene, case: Case) -> Compared:
    kafka, ottla = (_ask(Side(scene, kind), case) for kind in ("kafka", "ottla"))
    return Compared(case, kafka, ottla)


def _ask(side: Side, case: Case) -> Answer:
    try:
        return Answer(rows=case.ask(side))
    except AssertionError:
        raise
    except Exception as error:
        return Answer(refused=str(error))


def table(answers: Iterable[Compared]) -> str:
    """One line for what is answered alike in batches and streams."""
    rows: dict[tuple[str, str, str, str], list[str]] = {}
    for compared in answers:
        rows.setdefault(compared.cells(), []).append(compared.case.where)
    head = "| | asked for | `kafka` | `ottla` | why they differ |\n|---|---|---|---|---|\n"
    return head + "".join(f"| {', '.join(where)} | {' | '.join(cells)} |\n" for cells, where in rows.items())


def written_table() -> str:
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    from ottla.spark import session
    from tests.conftest import SETTINGS
    from tests.oracle.ottla import Ottla
    from tests.spark import jvm

    with Ottla(settings=SETTINGS) as broker:
        spark = session(cores=2, settings={"spark.jars": jvm.jars()}, archive=False)
        spark.sparkContext.setLogLevel("OFF")
        scene = Scene(spark, broker.bootstrap)
        answers = ask_both(scene)
        scene.close()
        spark.stop()
    for each in answers:
        if each.same == bool(each.case.why):
            print(each.case.where, each.case.text, each.kafka, each.ottla, each.ottla.refused, sep=": ")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + table(answers) + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
