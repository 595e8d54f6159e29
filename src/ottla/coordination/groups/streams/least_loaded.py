"""A heap that answers ties as Kafka's does (java.util.PriorityQueue; heapq answers otherwise): the same group gets the
same tasks from both."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class LeastLoaded(Generic[T]):
    def __init__(self, items: Iterable[T], load: Callable[[T], float]) -> None:
        self._heap: list[T] = []
        self._load = load
        for item in items:
            self.add(item)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, item: T) -> None:
        heap, at = self._heap, len(self._heap)
        heap.append(item)
        while at and self._load(item) < self._load(heap[parent := (at - 1) // 2]):
            heap[at], at = heap[parent], parent
        heap[at] = item

    def take(self) -> T:
        heap = self._heap
        least, item = heap[0], heap.pop()
        if not heap:
            return least
        at = 0
        while (child := 2 * at + 1) < len(heap):
            if child + 1 < len(heap) and self._load(heap[child + 1]) < self._load(heap[child]):
                child += 1
            if self._load(item) <= self._load(heap[child]):
                break
            heap[at], at = heap[child], child
        heap[at] = item
        return least
