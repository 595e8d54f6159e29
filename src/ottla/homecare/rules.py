"""What counts as silent, out of range and sustained: shared by the pipelines and their checks."""

from dataclasses import dataclass

PULSE = (45, 130)
SPO2_LEAST = 90
TEMPERATURE = (35.0, 38.8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All in event time, so that the outcome does not depend on how or when the records are read."""

    timeout_ms: int = 8_000  # a device whose next heartbeat comes later than this was offline
    lateness_ms: int = 4_000  # records may come this much later than others of the same time
    window_ms: int = 1_000  # vitals are judged by windows: out of range if every reading in it is
    sustained_ms: int = 5_000  # out of range for so long: a warning
    escalate_ms: int = 12_000  # and for so long: critical
    clear_ms: int = 5_000  # in range for so long: all clear


def is_out_of_range(pulse: float, spo2: float, temperature: float) -> bool:
    return (
        not PULSE[0] <= pulse <= PULSE[1]
        or spo2 < SPO2_LEAST
        or not TEMPERATURE[0] <= temperature <= TEMPERATURE[1]
    )
