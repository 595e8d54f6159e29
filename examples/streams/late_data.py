"""Late-data report: how late records of each sensor are, and which came too late for their minute.

Reads `readings` (sensor -> {"celsius": ...}), writes `too-late` (sensor -> how late, in seconds) and every
minute of stream time `lateness` (sensor -> records, late ones, and the worst). A record is late when a younger
one came before it, and too late when its minute and a grace of ten seconds have passed.
"""

from ottla.streams import App, Context, Processor, Record, json, keyed_store

MINUTE, GRACE = 60_000, 10_000
NOTHING = {"records": 0, "late": 0, "worst_s": 0}


class Report(Processor):
    def init(self, context: Context) -> None:
        super().init(context)
        self.seen = context.store("lateness-by-sensor")
        context.schedule(self.report, ms=MINUTE)

    def process(self, record: Record) -> None:
        late_ms = max(0, self.context.time_ms - record.time_ms)
        row = self.seen.get(record.key, NOTHING)
        worst_s = max(row["worst_s"], late_ms / 1000)
        row = {"records": row["records"] + 1, "late": row["late"] + (late_ms > 0), "worst_s": worst_s}
        self.seen[record.key] = row
        minute_end = record.time_ms // MINUTE * MINUTE + MINUTE
        if minute_end + GRACE <= self.context.time_ms:
            self.context.forward(record.but(value={"late_s": late_ms / 1000}), to="too-late")

    def report(self, now_ms: int) -> None:
        for sensor, row in self.seen.items():
            self.context.forward(Record(sensor, row, now_ms), to="lateness")


app = App("late-data")
readings = app.stream("readings", value=json)
store = keyed_store("lateness-by-sensor")
too_late, lateness = readings.process(Report, stores=[store], outputs=["too-late", "lateness"])
too_late.to("too-late")
lateness.to("lateness")

if __name__ == "__main__":
    app.run()
