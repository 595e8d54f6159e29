"""Fraud pattern: a card that tries small amounts and then a large one, all within ten minutes.

Reads `payments` (card -> {"amount": ...}), writes `suspicions` (card -> the payments that make the pattern). A
window store keeps each card's payments by time, so only the last ten minutes are looked at and kept.
"""

from ottla.streams import App, Context, Processor, Record, json, window_store

MINUTES_10 = 600_000
SMALL, LARGE, TRIES = 2.0, 500.0, 3


class Suspect(Processor):
    def init(self, context: Context) -> None:
        super().init(context)
        self.payments = context.store("payments-by-card")

    def process(self, record: Record) -> None:
        amount = record.value["amount"]
        if amount >= LARGE:
            recent = self.payments.fetch(record.key, record.time_ms - MINUTES_10, record.time_ms)
            tries = [payment["amount"] for _, payment in recent if payment["amount"] <= SMALL]
            if len(tries) >= TRIES:
                self.context.forward(record.but(value={"tries": tries, "amount": amount}))
        self.payments.put(record.key, record.value, record.time_ms)


app = App("fraud-pattern")
payments = app.stream("payments", value=json)
store = window_store("payments-by-card", retention_seconds=MINUTES_10 / 1000)
payments.process_values(Suspect, stores=[store]).to("suspicions")

if __name__ == "__main__":
    app.run()
