"""Page-view funnel: how many visitors have got how far, from the landing page to the purchase.

Reads `page-views` (visitor -> {"page": ...}), writes `funnel` (step -> visitors that have reached it and no
further). A visitor's furthest step is a table; grouping that table by step moves a visitor from one count to
the next.
"""

from ottla.streams import App, int64, json, string

STEPS = ["landing", "product", "cart", "payment", "thanks"]


def further(visitor: str, view: dict, reached: int) -> int:
    """Steps are taken in order; a page from further down the funnel does not count before its time."""
    return reached + 1 if STEPS[reached:][:1] == [view["page"]] else reached


app = App("page-view-funnel")
views = app.stream("page-views", value=json)
reached = views.group_by_key().aggregate(lambda: 0, further, value=json, name="reached")
steps = reached.filter(lambda visitor, count: count > 0).map_values(
    lambda count: STEPS[count - 1], value=string
)
funnel = steps.group_by(lambda visitor, step: (step, visitor)).count(name="funnel")
funnel.to_stream().to("funnel", value=int64)

if __name__ == "__main__":
    app.run()
