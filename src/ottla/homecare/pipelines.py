"""The three pipelines of home care: which topics, which stores, which operator."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ottla.homecare import billing, nurse, technician, topics
from ottla.homecare.rules import Rules
from ottla.pipelines import Pipeline, Stage

NAMES = ("technician", "nurse", "billing")


def stage(name: str, rules: Rules) -> Stage:
    return {"technician": _technician, "nurse": _nurse, "billing": _billing}[name](rules)


def pipeline(name: str, client: Mapping[str, Any], rules: Rules, **options: Any) -> Pipeline:
    return Pipeline(f"homecare-{name}", (stage(name, rules),), client, **options)


def _technician(rules: Rules) -> Stage:
    return Stage(
        "technician",
        inputs=(topics.HEARTBEAT,),
        operator=partial(technician.Technician, rules),
        columns=("key",),
        stores=(technician.DEVICES,),
        outputs=(topics.EVENT,),
        lateness_ms=rules.lateness_ms,
        ahead_ms=rules.lateness_ms,
    )


def _nurse(rules: Rules) -> Stage:
    return Stage(
        "nurse",
        inputs=(topics.VITALS, topics.ROSTER),
        operator=partial(nurse.Nurse, rules),
        stores=(nurse.PATIENTS,),
        outputs=(topics.ALERT,),
        lateness_ms=rules.lateness_ms,
        ahead_ms=rules.lateness_ms,
    )


def _billing(_: Rules) -> Stage:
    return Stage(
        "billing",
        inputs=(topics.BILLING,),
        operator=billing.Billing,
        stores=(billing.NUMBERS, billing.TOTALS),
        outputs=(topics.TOTAL,),
        clock="events",  # money does not depend on the time of day
    )
