"""Order saga: an order is paid and then shipped; if a step fails or takes too long, what was done is undone.

Reads `orders` (order -> {"amount": ...}), `payments` and `shipments` (order -> {"ok": ...}); writes `commands`
(order -> what a service is to do) and `order-states`. All three topics go through one processor with one store,
so an order's state changes in one place, exactly once; a minute of stream time without an answer counts as a
failure.
"""

from ottla.streams import App, Context, Processor, Record, json, keyed_store

PATIENCE_MS = 60_000


class Saga(Processor):
    def init(self, context: Context) -> None:
        super().init(context)
        self.orders = context.store("sagas")
        context.schedule(self.give_up, seconds=10)

    def process(self, record: Record) -> None:
        order, event = record.key, record.value
        state = self.orders.get(order, {"state": "new"})["state"]
        ok = event.get("ok", True)
        match state, event["kind"]:
            case "new", "order":
                self.step(order, "paying", {"do": "charge", "amount": event["amount"]}, record.time_ms)
            case "paying", "payment":
                self.step(
                    order, "shipping" if ok else "refused", {"do": "ship"} if ok else None, record.time_ms
                )
            case "shipping", "shipment":
                self.step(order, "done" if ok else "undone", None if ok else {"do": "refund"}, record.time_ms)

    def step(self, order: str, state: str, command: dict | None, at: int) -> None:
        self.orders[order] = {"state": state, "since_ms": at}
        self.context.forward(Record(order, state, at), to="states")
        if command is not None:
            self.context.forward(Record(order, command, at), to="commands")

    def give_up(self, now_ms: int) -> None:
        for order, row in self.orders.items():
            if row["state"] in ("paying", "shipping") and now_ms - row["since_ms"] >= PATIENCE_MS:
                self.step(order, "undone", {"do": "refund"} if row["state"] == "shipping" else None, now_ms)


app = App("order-saga")
kinds = {"orders": "order", "payments": "payment", "shipments": "shipment"}
streams = [
    app.stream(topic, value=json).map_values(lambda event, kind=kind: {**event, "kind": kind})
    for topic, kind in kinds.items()
]
everything = streams[0].merge(*streams[1:])
states, commands = everything.process_values(
    Saga, stores=[keyed_store("sagas")], outputs=["states", "commands"]
)
states.to("order-states")
commands.to("commands")

if __name__ == "__main__":
    app.run()
