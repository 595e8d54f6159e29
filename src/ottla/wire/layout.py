"""Sizes that both kernels go by, apart from either: where the compiled one is, the other is not imported."""

HEADER_BYTES = 61  # of a batch
INDEX_FIELDS = 9  # of a record in what `index` returns
