"""`format("ottla")` answers as `format("kafka")` does, but for what docs/spark.md lists; see option_cases.py."""

from __future__ import annotations

import pytest

from tests.spark import jvm, side_by_side
from tests.spark.connectors import Scene
from tests.spark.option_cases import JVM_ONLY

pytest.importorskip("pyspark", reason="needs the extra spark")
if (reason := jvm.why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)


pytestmark = pytest.mark.timeout(3600)  # the first test waits for some 370 queries, on any machine


@pytest.fixture(scope="module")
def answers(spark, ottla):
    scene = Scene(spark, ottla.bootstrap)
    yield side_by_side.ask_both(scene)
    scene.close()


def test_every_option_brings_the_same_rows_or_the_same_refusal_unless_the_page_says_why(answers):
    unlike = [each for each in answers if not each.same and not each.case.why]
    assert not unlike, "\n".join(f"{e.case.where} {e.case.text}: {e.kafka} / {e.ottla}" for e in unlike)


def test_what_is_said_to_differ_does_differ(answers):
    alike = [f"{each.case.where} {each.case.text}" for each in answers if each.same and each.case.why]
    assert not alike, alike


def test_a_refusal_is_one_short_text_that_begins_with_the_reason(answers):
    for each in answers:
        text = each.ottla.refused
        if text is not None and each.case.why != JVM_ONLY:  # which Spark refuses by itself, in its own words
            assert "Traceback" not in text and len(text.strip().splitlines()) <= 5, text


def test_the_table_of_the_page_is_what_was_answered(answers):
    hint = "python -m tests.spark.side_by_side writes it"
    assert side_by_side.written_table() == side_by_side.table(answers), hint
