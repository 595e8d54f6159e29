"""A folder of files: JSON lines, CSV, Parquet or plain lines. Each file is a source partition; new files are taken up.

A text file may still grow: whole lines are read as they come. A Parquet file is read when it is whole, so it should be
moved into the folder. Files that were read stay where they are; `{"position": n, "size": n}` says that one is done.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.csv as pa_csv  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.parquet as pa_parquet  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.connect.errors import DataError
from ottla.connect.settings import HIGH, MEDIUM, STRING, Setting
from ottla.connect.sources.file import split_lines
from ottla.connect.spi import Batch, Config, Json, Limit, Source, SourceRecord

FILE, POSITION, SIZE = "file", "position", "size"
_CHUNK_BYTES = 8 * 1024 * 1024


class FolderSource(Source):
    settings = (
        Setting("path", STRING, doc="Folder to read", importance=HIGH),
        Setting("topic", STRING, doc="Topic to write to", importance=HIGH),
        Setting("format", STRING, "lines", "Of the files", HIGH, choices=("lines", "json", "csv", "parquet")),
        Setting("pattern", STRING, "*", "Which files, as *.csv; **/*.csv goes into folders", MEDIUM),
        Setting("key.field", STRING, None, "Field that is the record's key", MEDIUM),
        Setting("csv.delimiter", STRING, ",", "Between the columns", MEDIUM),
    )

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._folder, self._topic = Path(config["path"]), config["topic"]
        self._format, self._key = config["format"], config["key.field"]

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        if not Path(config["path"]).is_dir():
            return {"path": f"Invalid value {config['path']} for configuration path: there is no such folder"}
        return {}

    def partitions(self) -> Iterable[Json]:
        """Names that begin with a dot are files that are still being written."""
        files = (file for file in self._folder.glob(self.config["pattern"]) if file.is_file())
        return [
            {FILE: str(file.relative_to(self._folder))}
            for file in sorted(files)
            if not file.name.startswith(".")
        ]

    def latest(self, partition: Json) -> Json | None:
        try:
            size = self._path(partition).stat().st_size
        except OSError:
            return None
        return {POSITION: size, SIZE: size} if self._format != "parquet" else None

    def read(self, partition: Json, offset: Json | None, limit: Limit) -> Batch | None:
        path, position = self._path(partition), int((offset or {}).get(POSITION, 0))
        try:
            size = path.stat().st_size
            if self._format == "parquet":
                return self._parquet(path, position, limit)
            if size <= position:
                return None
            return self._text(path, position, size, limit)
        except FileNotFoundError:
            return None
        except pa.ArrowInvalid as error:
            raise DataError(f"{path} is not {self._format}: {error}") from error

    def _path(self, partition: Json) -> Path:
        return self._folder / str(partition[FILE])

    def _text(self, path: Path, position: int, size: int, limit: Limit) -> Batch | None:
        with path.open("rb") as file:
            header = file.readline() if self._format == "csv" else b""
            begin = max(position, len(header))
            file.seek(begin)
            data = file.read(min(limit.bytes, _CHUNK_BYTES))
        lines, used = split_lines(data, limit.records)
        if not used:
            if len(data) == _CHUNK_BYTES:
                raise DataError(f"{path}: a line of more than {_CHUNK_BYTES} bytes at position {begin}")
            return None
        offset = {POSITION: begin + used, SIZE: size}
        match self._format:
            case "json":
                return Batch(self._json(path, lines), offset)
            case "csv":
                return self._rows(self._csv(header, data[:used]), offset)
            case _:
                return Batch(pa.RecordBatch.from_arrays([lines], names=["value"]), offset, self._topic)

    def _json(self, path: Path, lines: Any) -> list[SourceRecord]:
        records = []
        for line in lines.to_pylist():
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except ValueError as error:
                raise DataError(f"{path}: {line[:80]!r} is not JSON: {error}") from error
            key = value.get(self._key) if self._key and isinstance(value, dict) else None
            records.append(SourceRecord(self._topic, value, key=key))
        return records

    def _csv(self, header: bytes, data: bytes) -> Any:
        """All columns are texts: types that are guessed from a part of a file could change with the next."""
        delimiter = self.config["csv.delimiter"]
        names = [name.strip().strip('"') for name in header.decode().strip().split(delimiter)]
        return pa_csv.read_csv(
            pa.BufferReader(data),
            read_options=pa_csv.ReadOptions(column_names=names),
            parse_options=pa_csv.ParseOptions(delimiter=delimiter),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )

    def _parquet(self, path: Path, position: int, limit: Limit) -> Batch | None:
        """The position is a row; a row group at a time."""
        with pa_parquet.ParquetFile(path) as file:
            metadata, at = file.metadata, 0
            if position >= metadata.num_rows:
                return None
            for group in range(metadata.num_row_groups):
                rows = metadata.row_group(group).num_rows
                if position < at + rows:
                    table = file.read_row_group(group).slice(position - at, limit.records)
                    break
                at += rows
            return self._rows(table, {POSITION: position + table.num_rows, SIZE: metadata.num_rows})

    def _rows(self, table: Any, offset: Json) -> Batch:
        if not table.num_rows:
            return Batch([], offset)
        (rows,) = table.combine_chunks().to_batches()
        struct = pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema))
        arrays, names = [struct], ["value"]
        if self._key:
            arrays, names = [*arrays, rows.column(self._key)], [*names, "key"]
        return Batch(pa.RecordBatch.from_arrays(arrays, names=names), offset, self._topic)
