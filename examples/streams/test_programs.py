"""The programs of this folder, each in the TestDriver: no broker, no Spark, milliseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.streams import TestDriver
from ottla.streams.loading import load

FOLDER = Path(__file__).parent


def drive(name: str) -> TestDriver:
    return TestDriver(load(FOLDER / f"{name}.py"))


def pipe(driver: TestDriver, topic: str, *records: tuple[str, Any, int]) -> None:
    """Keys, values and times in seconds."""
    for key, value, seconds in records:
        driver.input(topic).pipe(value, key, at=seconds * 1000)


def test_word_count() -> None:
    with drive("word_count") as driver:
        driver.input("lines").pipe("Hello world hello")
        assert driver.output("word-counts").table() == {"hello": 2, "world": 1}


def test_page_view_funnel() -> None:
    with drive("page_view_funnel") as driver:
        for visitor, pages in {
            "a": ["landing", "product", "cart"],
            "b": ["landing", "cart"],  # from nowhere into the cart: does not count
            "c": ["product"],
            "d": ["landing", "product"],
        }.items():
            for page in pages:
                driver.input("page-views").pipe({"page": page}, visitor)
        assert {k: n for k, n in driver.output("funnel").table().items() if n} == {
            "landing": 1,
            "product": 1,
            "cart": 1,
        }


def test_fraud_pattern() -> None:
    with drive("fraud_pattern") as driver:
        small = [("card", {"amount": 1.0}, at) for at in (0, 60, 120)]
        pipe(driver, "payments", *small, ("other", {"amount": 900.0}, 130), ("card", {"amount": 900.0}, 180))
        assert driver.output("suspicions").table() == {"card": {"tries": [1.0, 1.0, 1.0], "amount": 900.0}}
        pipe(driver, "payments", ("card", {"amount": 900.0}, 2_000))  # the small ones are long ago
        assert len(driver.output("suspicions").records()) == 1


def test_enrichment() -> None:
    with drive("enrichment") as driver:
        pipe(driver, "orders", ("1", {"customer": "c", "amount": 100}, 0))
        pipe(driver, "customers", ("c", {"name": "Ada", "tier": "gold"}, 1))
        pipe(driver, "orders", ("2", {"customer": "c", "amount": 100}, 2))
        assert [order["amount"] for order in driver.output("unknown-customers").values()] == [100]
        (order,) = driver.output("enriched-orders").values()
        assert (order["name"], order["pays"]) == ("Ada", 90.0)


def test_late_data() -> None:
    with drive("late_data") as driver:
        warm = {"celsius": 20}
        pipe(
            driver,
            "readings",
            ("s", warm, 10),
            ("s", warm, 69),
            ("s", warm, 50),
            ("s", warm, 71),
            ("s", warm, 5),
        )
        assert driver.output("too-late").values() == [{"late_s": 66.0}]
        pipe(driver, "readings", ("s", warm, 121))
        assert driver.output("lateness").values()[-1] == {"records": 6, "late": 2, "worst_s": 66.0}


def test_sessionisation() -> None:
    with drive("sessionisation") as driver:
        visit = [("v", {"page": page}, at) for page, at in (("home", 0), ("cart", 60), ("home", 10_000))]
        pipe(driver, "clicks", *visit)
        pages = [pages for pages in driver.output("visits").values() if pages is not None]
        assert pages == [["home", "cart"]]
        driver.advance(seconds=20_000)  # nothing more comes
        assert driver.output("visits").values()[-1] == ["home"]


def test_top_n() -> None:
    with drive("top_n") as driver:
        for article, reads in {"a": 1, "b": 4, "c": 2, "d": 3}.items():
            for _ in range(reads):
                driver.input("reads").pipe({"section": "news"}, article)
        assert driver.output("top-articles").table() == {"news": [["b", 4], ["d", 3], ["c", 2]]}


def test_dedup() -> None:
    with drive("dedup") as driver:
        events = [
            ("k", {"id": "1"}, 0),
            ("k", {"id": "2"}, 10),
            ("k", {"id": "1"}, 20),
            ("k", {"id": "1"}, 4_000),
        ]
        pipe(driver, "events", *events)
        assert [event["id"] for event in driver.output("unique-events").values()] == ["1", "2", "1"]


def test_alerts_that_clear() -> None:
    with drive("alerts_that_clear") as driver:
        for pulse in (160, 160, 90, 160, 160, 160, 170, 80):
            driver.input("patient-vitals").pipe({"pulse": pulse}, "p")
        assert [alert["state"] for alert in driver.output("alerts").values()] == ["raised", "cleared"]
        for _ in range(3):
            driver.input("patient-vitals").pipe({"pulse": 180}, "p")
        driver.advance(seconds=29)
        assert driver.output("alerts").values()[-1]["state"] == "raised"
        driver.advance(seconds=6)
        assert driver.output("alerts").values()[-1]["state"] == "silent"


def test_order_saga() -> None:
    with drive("order_saga") as driver:
        pipe(driver, "orders", ("1", {"amount": 5}, 0), ("2", {"amount": 7}, 1), ("3", {"amount": 9}, 2))
        pipe(driver, "payments", ("1", {"ok": True}, 3), ("2", {"ok": False}, 4), ("3", {"ok": True}, 5))
        pipe(driver, "shipments", ("1", {"ok": True}, 6))
        pipe(driver, "orders", ("4", {"amount": 1}, 80))  # time passes: order 3 is not shipped
        assert driver.output("order-states").table() == {
            "1": "done",
            "2": "refused",
            "3": "undone",
            "4": "paying",
        }
        commands = [(key, value["do"]) for key, value, _ in driver.output("commands").records()]
        assert commands[-2:] == [("4", "charge"), ("3", "refund")]
