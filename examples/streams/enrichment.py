"""Enrichment by a table: each order with its customer, as the customer is at that moment.

Reads `orders` (order -> {"customer": ..., "amount": ...}) and `customers` (customer -> {"name": ..., "tier":
...}), writes `enriched-orders` (customer -> both). Orders come by order number, so they are brought to the
partitions of their customers first. Orders of customers that nobody knows (yet) go to `unknown-customers`.
"""

from ottla.streams import App, json


def enriched(order: dict, customer: dict | None) -> dict:
    known = customer or {"name": None, "tier": None}
    discount = 0.1 if known["tier"] == "gold" else 0.0
    return {**order, "name": known["name"], "pays": round(order["amount"] * (1 - discount), 2)}


app = App("enrichment")
customers = app.table("customers", value=json, name="customers")
orders = app.stream("orders", value=json).select_key(lambda number, order: order["customer"])
joined = orders.left_join(customers, enriched)
known, unknown = joined.split(lambda customer, order: order["name"] is not None)
known.to("enriched-orders")
unknown.to("unknown-customers")

if __name__ == "__main__":
    app.run()
