import argparse
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.cli.asking.resets import clamp, read_plan
from ottla.cli.options import UsageError, add_client_options, client_settings, pairs, partitions
from ottla.cli.produce import _from_json, split
from ottla.cli.tables import table
from ottla.cli.times import duration_ms, time_ms
from ottla.config.environment import read_environment


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("PT1H30M", 5_400_000),
        ("P1DT1S", 86_401_000),
    ],
)
def test_durations_as_people_and_kafkas_tools_write_them(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "h", "5", "5x", "P", "1h 30m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        duration_ms(text)


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(UsageError, match="is no time"):
        time_ms("²", 0)


def test_times_without_a_zone_are_utc() -> None:
    assert time_ms("2020-01-01T00:00:00", 0) == time_ms("2020-01-01T01:00:00+01:00", 0) == 1_577_836_800_000


def test_tables_align_numbers_to_the_right_and_show_what_is_missing() -> None:
    assert table(("NAME", "N"), [("a", 10), ("long", None)]).splitlines() == [
        "NAME   N",
        "a     10",
        "long   -",
    ]


def test_pairs_and_partitions() -> None:
    assert pairs(["a=b=c"]) == {"a": "b=c"}
    assert partitions("t:0,2") == ("t", [0, 2]) and partitions("t") == ("t", None)
    with pytest.raises(UsageError):
        pairs(["a"])
    with pytest.raises(UsageError):
        partitions("t:x")


def test_a_profile_is_a_file_of_client_settings_that_options_win_over(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)
    (tmp_path / "ottla").mkdir()
    (tmp_path / "ottla" / "clinic.properties").write_text(
        "bootstrap.servers=clinic:9093\nsecurity.protocol=SSL\nclient.id=a\n"
    )
    own = tmp_path / "own.properties"
    own.write_text("client.id=b\n")
    parser = argparse.ArgumentParser()
    add_client_options(parser)

    def chosen(*words: str) -> tuple[str, ...]:
        settings = client_settings(parser.parse_args(words))
        return tuple(
            settings.get(name, "") for name in ("bootstrap.servers", "security.protocol", "client.id")
        )

    assert chosen() == ("", "", "")
    assert chosen("--profile", "clinic") == ("clinic:9093", "SSL", "a")
    assert chosen("--profile", "clinic", "--command-config", str(own)) == ("clinic:9093", "SSL", "b")
    assert chosen("--profile", "clinic", "-b", "other:1", "-X", "client.id=c") == ("other:1", "SSL", "c")
    for name in ("clinik", "../own"):
        with pytest.raises(UsageError, match="there are clinic"):
            chosen("--profile", name)


def test_exported_offsets_are_read_back() -> None:
    assert read_plan('"t",0,5\n"a,b",1,7\n', "g") == {("t", 0): 5, ("a,b", 1): 7}
    assert read_plan("g,t,0,5\nother,t,0,6\n\n", "g") == {("t", 0): 5}
    with pytest.raises(UsageError):
        read_plan("t,0\n", "g")
    assert [clamp(n, 3, 9) for n in (1, 5, 12)] == [3, 5, 9]


@pytest.mark.parametrize("piece", [1, 2, 3, 100])
def test_records_are_split_however_input_arrives(piece: int) -> None:
    stream = io.BufferedReader(io.BytesIO(b"a--b----c"))
    assert list(split(stream, b"--", piece_bytes=piece)) == [b"a", b"b", b"", b"c"]


def test_what_consume_prints_as_json_produce_reads() -> None:
    line = b'{"key": null, "value": {"base64": "//8="}, "headers": [["h", "x"]], "timestamp": 5}'
    record = _from_json(line)
    assert (record.key, record.value, record.headers, record.timestamp) == (
        None,
        b"\xff\xff",
        (("h", b"x"),),
        5,
    )


def test_a_record_in_json_may_leave_everything_out() -> None:
    assert _from_json(b'{"value": "x", "headers": null, "topic": null}').headers == ()


@pytest.mark.parametrize(
    "line",
    [
        b"{bad",
        b"[1]",
        b"5",
        b'{"headers": {"ab": "c"}}',
        b'{"headers": [["a"]]}',
        b'{"headers": 5}',
        b'{"topic": 5}',
        b'{"timestamp": "soon"}',
        b'{"value": {"base64": 5}}',
        b'{"value": "\xff"}',
    ],
)
def test_a_line_that_is_no_record_in_json_is_named(line: bytes) -> None:
    with pytest.raises(UsageError, match="is no record in JSON"):
        _from_json(line)


def test_what_commands_read_of_the_environment_does_not_stop_a_broker_in_the_same_container() -> None:
    sources = Path(main.__file__).parent.rglob("*.py")
    names = {name for source in sources for name in re.findall(r"\bOTTLA_[A-Z_]+\b", source.read_text())}
    assert {"OTTLA_BOOTSTRAP", "OTTLA_PROFILE", "OTTLA_LOG_LEVEL"} <= names
    told = read_environment(dict.fromkeys(names, "clinic"), {}, "ottla-0")
    assert "clinic" not in told.settings.values()


def test_unknown_commands_exit_with_2_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["nonsense"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main.main(["--help"]) == 0
    assert "consume" in capsys.readouterr().out


def test_an_error_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["topics", "create", "t", "-c", "novalue", "-b", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == "ottla topics: 'novalue' is not of the form name=value\n"


def test_help_imports_neither_the_client_nor_asyncio() -> None:
    code = (
        "import sys; from ottla.cli.main import main; main(['--help']); "
        "bad = [m for m in sys.modules if m == 'asyncio' or m.startswith('ottla.client')]; "
        "sys.exit(bool(bad))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
