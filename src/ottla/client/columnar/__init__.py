"""Topics to Arrow and Arrow to topics: records never become Python objects. Needs the extra `arrow`."""

from ottla.client.columnar.producer import ColumnarProducer
from ottla.client.columnar.reader import ColumnarReader, DataLost, Range, TopicChanged

__all__ = ["ColumnarProducer", "ColumnarReader", "DataLost", "Range", "TopicChanged"]
