"""An hour of a number in little memory: the last minutes by the second, the rest by ten seconds."""

from array import array
from collections import deque

FINE, COARSE, STEP_S = 300, 360, 10.0


class Series:
    """`add` in the order of time. At most 660 points of 16 bytes are kept, whatever happens."""

    __slots__ = ("_coarse", "_fine", "_sum", "_summed", "_window")

    def __init__(self) -> None:
        self._fine = array("d")  # time, value, time, value, ...
        self._coarse = array("d")
        self._window = 0.0
        self._sum = 0.0
        self._summed = 0

    def add(self, at: float, value: float) -> None:
        self._fine.extend((at, value))
        if len(self._fine) >= 4 * FINE:
            del self._fine[: -2 * FINE]
        window = at - at % STEP_S
        if window != self._window and self._summed:
            self._coarse.extend((self._window, self._sum / self._summed))
            self._sum, self._summed = 0.0, 0
            if len(self._coarse) >= 4 * COARSE:
                del self._coarse[: -2 * COARSE]
        self._window = window
        self._sum += value
        self._summed += 1

    def last(self, seconds: float, now: float) -> list[tuple[float, float]]:
        """The points of the last so many seconds; coarse ones where there are no fine ones any more."""
        fine = [(at, value) for at, value in _pairs(self._fine) if at >= now - seconds]
        begin = fine[0][0] if fine else now
        if seconds <= FINE:
            return fine
        return [
            (at, value) for at, value in _pairs(self._coarse) if now - seconds <= at < begin - STEP_S
        ] + fine

    def values(self, number: int) -> tuple[float, ...]:
        """The last values without their times, for a sparkline."""
        return (
            tuple(self._fine[-2 * number + 1 :: 2])
            if number * 2 <= len(self._fine)
            else tuple(self._fine[1::2])
        )

    def latest(self, over: int = 1) -> float:
        """The mean of the last points."""
        values = self.values(over)
        return sum(values) / len(values) if values else 0.0


class History:
    """Series by name. Names that were not added to for a while are forgotten, as their topics and groups were."""

    def __init__(self, names_max: int = 20_000) -> None:
        self._series: dict[tuple[str, str], Series] = {}
        self._order: deque[tuple[str, str]] = deque()
        self._names_max = names_max

    def add(self, kind: str, name: str, at: float, value: float) -> None:
        key = (kind, name)
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= self._names_max:
                self._series.pop(self._order.popleft(), None)
            series = self._series[key] = Series()
            self._order.append(key)
        series.add(at, value)

    def get(self, kind: str, name: str) -> Series:
        return self._series.get((kind, name)) or Series()

    def keep(self, kind: str, names: "set[str] | dict[str, object]") -> None:
        """Forgets the series of this kind whose names are not among these."""
        gone = [key for key in self._series if key[0] == kind and key[1] not in names]
        for key in gone:
            del self._series[key]
        if gone:
            self._order = deque(key for key in self._order if key in self._series)


def _pairs(numbers: "array[float]") -> "zip[tuple[float, float]]":
    return zip(numbers[::2], numbers[1::2], strict=True)
