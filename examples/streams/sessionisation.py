"""Sessionisation: what a visitor did between two pauses of half an hour or more.

Reads `clicks` (visitor -> {"page": ...}), writes `visits` ((visitor, start, end) -> pages), once for each
visit: when the pause is over, also when nothing more comes. A late click may join two visits into one.
"""

from ottla.streams import App, json, session

app = App("sessionisation", clock="wall")
clicks = app.stream("clicks", value=json)
visits = (
    clicks.group_by_key()
    .window(session(gap=1800, grace=60))
    .aggregate(
        list,
        lambda visitor, click, pages: [*pages, click["page"]],
        lambda visitor, earlier, later: [*earlier, *later],
        name="visits",
    )
)
visits.final().to_stream().to("visits")

if __name__ == "__main__":
    app.run()
