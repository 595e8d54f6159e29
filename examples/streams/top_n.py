"""Top N: the three articles of each section that are read most.

Reads `reads` (article -> {"section": ...}), writes `top-articles` (section -> [[article, reads], ...]).
Articles are counted one by one; grouping the counts by section gives each section the few that lead it.
"""

from ottla.streams import App, json

N = 3


def more(article: str, read: dict, row: dict) -> dict:
    return {"section": read["section"], "article": article, "reads": row["reads"] + 1}


def add(section: str, row: dict, articles: dict) -> dict:
    return {**articles, row["article"]: row["reads"]}


def remove(section: str, row: dict, articles: dict) -> dict:
    return {article: reads for article, reads in articles.items() if article != row["article"]}


def leading(articles: dict) -> list:
    return sorted(articles.items(), key=lambda pair: (-pair[1], pair[0]))[:N]


app = App("top-n")
reads = app.stream("reads", value=json)
counts = reads.group_by_key().aggregate(lambda: {"reads": 0}, more, name="reads-by-article")
sections = counts.group_by(lambda article, row: (row["section"], row))
articles = sections.aggregate(dict, add, remove, name="articles-by-section")
articles.map_values(leading).to_stream().to("top-articles")

if __name__ == "__main__":
    app.run()
