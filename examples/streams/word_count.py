"""Word count: how often each word was written, for ever.

Reads `lines` (text), writes `word-counts` (word -> int64). The count of a word lives where the word's partition
is, so the words go through an internal topic first: group_by sees to it.

    ottla topics create lines word-counts --partitions 2
    ottla streams run word_count.py
    echo "hello world hello" | ottla produce lines
    ottla streams query word_count.py counts hello
"""

from ottla.streams import App, int64, string

app = App("word-count")
words = app.stream("lines", value=string).flat_map_values(lambda line: line.lower().split(), value=string)
counts = words.group_by(lambda key, word: word).count(name="counts")
counts.to_stream().to("word-counts", value=int64)

if __name__ == "__main__":
    app.run()
