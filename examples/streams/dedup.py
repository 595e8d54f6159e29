"""Deduplication: an event that was sent twice goes on once, if both come within an hour.

Reads `events` (any key -> {"id": ...}), writes `unique-events`. Ids go to their own partition first, so that
both copies meet; a window store forgets ids that are older than the hour. The event keeps its key.
"""

from ottla.streams import App, Processor, Record, json, window_store

HOUR = 3_600_000


class Once(Processor):
    def process(self, record: Record) -> None:
        seen = self.context.store("seen")
        if not seen.fetch(record.key, record.time_ms - HOUR, record.time_ms + HOUR):
            seen.put(record.key, True, record.time_ms)
            self.context.forward(record)


app = App("dedup")
events = app.stream("events", value=json)
by_id = events.map(lambda key, event: (event["id"], {"key": key, "event": event})).repartition("by-id")
unique = by_id.process(Once, stores=[window_store("seen", retention_seconds=HOUR / 1000)])
unique.map(lambda _, both: (both["key"], both["event"])).to("unique-events")

if __name__ == "__main__":
    app.run()
