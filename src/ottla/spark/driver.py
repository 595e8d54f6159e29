"""What a user of PySpark sees of our errors: the sentence first, and `outputMode("update")` refused by `start()`.

Both need code in the driver's Python, around PySpark's own. Spark wraps an error of a source or sink into words of its
own, for a stream with the offsets and the plan behind them. And it ends a query with `outputMode("update")` on a thread
of its JVM ("ottla does not support Update mode") before any code of a Python sink runs, so that nothing else could
name the way.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from ottla.spark.errors import OptionError
from ottla.spark.plain import WAY_OF_UPDATES, sentence_first

_FORMAT, _MODE = "_ottla_format", "_ottla_mode"
# PySpark's writer has no getters, so these methods note what was chosen. `foreach` and `foreachBatch` take the place of
# a format; what they note, a function, is never "ottla".
_NOTES = {"format": _FORMAT, "foreach": _FORMAT, "foreachBatch": _FORMAT, "outputMode": _MODE}


def install() -> None:
    """For this process; a second call changes nothing. Errors and streams of other formats are left alone."""
    from pyspark.errors.exceptions.captured import CapturedException
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if hasattr(DataStreamWriter, _FORMAT):
        return
    for name, note in _NOTES.items():
        setattr(DataStreamWriter, note, None)
        _wrap(DataStreamWriter, name, partial(_noting, note=note))
    _wrap(DataStreamWriter, "start", _refusing)
    _wrap(CapturedException, "__str__", _telling)


def _wrap(kind: type, name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    method = getattr(kind, name)
    setattr(kind, name, wraps(method)(wrapper(method)))


def _noting(method: Callable[..., Any], note: str) -> Callable[..., Any]:
    def noting(writer: Any, *arguments: Any, **named: Any) -> Any:
        answer = method(writer, *arguments, **named)
        setattr(writer, note, [*arguments, *named.values()][0])
        return answer

    return noting


def _refusing(start: Callable[..., Any]) -> Callable[..., Any]:
    def refusing(
        writer: Any,
        path: Any = None,
        format: Any = None,
        outputMode: Any = None,
        *arguments: Any,
        **named: Any,
    ) -> Any:
        chosen = (format or getattr(writer, _FORMAT), outputMode or getattr(writer, _MODE))
        if [str(choice).lower() for choice in chosen] == ["ottla", "update"]:
            raise OptionError(
                f'outputMode("update"): Spark lets sinks in Python append only; {WAY_OF_UPDATES}'
            )
        return start(writer, path, format, outputMode, *arguments, **named)

    return refusing


def _telling(text_of: Callable[..., str]) -> Callable[..., str]:
    def telling(error: Any) -> str:
        return sentence_first(text_of(error))

    return telling
