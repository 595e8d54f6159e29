"""Alerts that clear: a patient's pulse alert is raised once, and cleared when it is over or when the device falls
silent.

Reads `patient-vitals` (patient -> {"pulse": ...}), writes `alerts` (patient -> {"state": "raised" | "cleared" |
"silent"}). An alert is raised after three high values in a row and cleared by the first normal one. A device
that sends nothing for thirty seconds of wall clock while its alert stands is reported: no record is needed for
that.
"""

from ottla.streams import App, Context, Processor, Record, json, keyed_store

HIGH, IN_A_ROW, SILENT_MS = 150, 3, 30_000
CALM = {"high": 0, "raised": False}


class Alerts(Processor):
    def init(self, context: Context) -> None:
        super().init(context)
        self.patients = context.store("patients")
        context.schedule(self.look_for_silence, seconds=5, clock="wall")

    def process(self, record: Record) -> None:
        row = {**self.patients.get(record.key, CALM), "seen_ms": self.context.wall_ms}
        row["high"] = row["high"] + 1 if record.value["pulse"] > HIGH else 0
        if not row["raised"] and row["high"] >= IN_A_ROW:
            row["raised"] = True
            self.tell(record.key, "raised", record.time_ms)
        elif row["raised"] and row["high"] == 0:
            row["raised"] = False
            self.tell(record.key, "cleared", record.time_ms)
        self.patients[record.key] = row

    def look_for_silence(self, now_ms: int) -> None:
        for patient, row in self.patients.items():
            if row["raised"] and now_ms - row["seen_ms"] >= SILENT_MS:
                self.tell(patient, "silent", now_ms)
                self.patients[patient] = {**row, "raised": False, "high": 0}

    def tell(self, patient: str, state: str, at: int) -> None:
        self.context.forward(Record(patient, {"state": state}, at))


app = App("alerts-that-clear")
vitals = app.stream("patient-vitals", value=json)
vitals.process_values(Alerts, stores=[keyed_store("patients")]).to("alerts")

if __name__ == "__main__":
    app.run()
