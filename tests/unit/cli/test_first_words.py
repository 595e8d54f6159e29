"""What somebody sees who types something wrong, or wants to know what is installed."""

import argparse
import io
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

from ottla.cli import tables
from ottla.cli.main import COMMANDS, main
from ottla.testing import Broker


@pytest.mark.parametrize(
    "line, meant",
    [("strat", "did you mean start?"), ("topic", "did you mean topics?"), ("xyzzy", "see ottla --help")],
)
def test_an_unknown_command_has_a_suggestion(line, meant, capsys):
    assert main([line]) == 2
    assert meant in capsys.readouterr().err


def test_an_unknown_sub_command_has_a_suggestion(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["topics", "lst"])
    assert ended.value.code == 2
    assert "there is no 'lst'; did you mean list?" in capsys.readouterr().err


def test_versions_tell_of_the_kernel_when_asked(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("ottla ")
    assert main(["--version", "-v"]) == 0
    assert "kernel " in capsys.readouterr().out


def test_a_missing_kernel_is_told_by_version_doctor_and_log(capsys, monkeypatch, tmp_path, caplog):
    for module in ("ottla.wire.kernel", "ottla.cli.doctor", "ottla.cli.start"):
        monkeypatch.setattr(f"{module}.COMPILED", False)
    assert main(["--version", "-v"]) == 0
    assert "kernel in Python: slow; install where there is a C compiler" in capsys.readouterr().out
    assert main(["doctor", "--data", str(tmp_path)]) == 1
    assert "BAD the C kernel is missing: install again where there is a C compiler" in capsys.readouterr().out
    with socket.create_server(("127.0.0.1", 0)) as taken, caplog.at_level(logging.WARNING):
        assert main(["start", "--memory", "--port", str(taken.getsockname()[1])]) == 1
    assert "the C kernel is missing" in caplog.text


def test_a_port_that_does_not_exist_and_one_that_is_taken(capsys):
    assert main(["start", "--memory", "--port", "99999"]) == 1
    assert "there is no port 99999" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["start", "--memory", "--port", str(port)]) == 1
    assert "another program listens there already" in capsys.readouterr().err


def test_what_is_mistyped_behind_an_option_is_told_with_what_to_write(capsys):
    with Broker() as broker:
        where = ["-b", broker.bootstrap]
        for line, sentence in (
            (["topics", "list", "-b", "127.0.0.1:99999"], "there is no port 99999; ports go from 1 to 65535"),
            (["topics", "list", "-b", "localhost"], "write host:port, for example 127.0.0.1:9092"),
            (
                ["topics", "list", *where, "--command-config", "/no/file"],
                "/no/file: No such file or directory",
            ),
            (["topics", "create", "t", *where, "--config", "retention.mss=3"], "did you mean retention.ms?"),
            (
                ["groups", "describe", "nobody", *where],
                "group nobody does not exist; ottla groups list shows",
            ),
            (["consume", "t", *where, "--offset", "strat"], "'strat' is no offset; use start, end, stored"),
            (["cluster", "drain", "7", *where], "there is no broker 7; the brokers are 1"),
        ):
            assert main(line) == 1
            assert sentence in capsys.readouterr().err, line
        assert main(["cluster", "balance", "--dry-run", *where]) == 0
        assert "nothing has to move" in capsys.readouterr().err


def test_a_missing_topic_is_named_once_and_at_once(capsys, caplog):
    with Broker() as broker:
        assert main(["consume", "nosuch", "-b", broker.bootstrap, "--timeout", "0.5"]) == 1
    sentence = "topic nosuch does not exist; check its name, or create it first"
    assert caplog.messages == [f"partitions could not be listed: {sentence}; trying again"]
    assert capsys.readouterr().err == (
        f"ottla consume: partitions could not be listed: gave up after 500 ms; last: {sentence}\n"
    )


def test_a_broker_that_is_not_there_is_told_of_at_once_and_given_up_in_time(capsys):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        nobody = silent.getsockname()[1]
    assert main(["topics", "list", "-b", f"127.0.0.1:{nobody}", "--timeout", "0.5"]) == 1
    told = capsys.readouterr().err
    assert f"cannot connect to 127.0.0.1:{nobody}: nothing listens there. Is the broker running" in told
    assert "gave up after 500 ms" in told


SERVERS = {"connect", "connect-standalone", "connect-distributed"}  # until they are stopped


def commands_that_ask() -> Iterator[tuple[str, set[str]]]:
    """Every command and sub-command that asks a cluster or a server by HTTP, with its options. Those of Kafka's names
    have Kafka's options."""
    for name, (module, _) in COMMANDS.items():
        if name not in SERVERS and not name.startswith("kafka-"):
            parser = argparse.ArgumentParser(prog=name)
            import_module(module).add_arguments(parser)
            yield from asking(parser)


def asking(parser: argparse.ArgumentParser) -> Iterator[tuple[str, set[str]]]:
    options = {option for action in parser._actions for option in action.option_strings}
    if options & {"--bootstrap", "--url"} or {"--from", "--to"} <= options:
        yield parser.prog, options
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from asking(sub)


def test_every_command_that_asks_somebody_can_be_told_when_to_give_up():
    asked = dict(commands_that_ask())
    assert {
        "topics list",
        "doctor",
        "connectors list",
        "registry list",
        "mirror",
        "perf produce",
    } <= asked.keys()
    assert [name for name, options in asked.items() if "--timeout" not in options] == []


@pytest.mark.parametrize(
    "command",
    ["doctor -b {}", "connectors list --url http://{}", "registry list --url http://{}", "topics list -b {}"],
)
def test_a_server_that_never_answers_is_given_up_in_time(command, capsys):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        assert main([*command.format(address).split(), "--timeout", "0.5"]) == 1
    out, err = capsys.readouterr()
    assert address in out + err


@pytest.mark.parametrize("command", ["produce t", "perf produce t --num-records 1 --record-size 1"])
def test_a_producer_gives_up_in_time_too(command, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"record\n")))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        nobody = silent.getsockname()[1]
    assert main([*command.split(), "-b", f"127.0.0.1:{nobody}", "--timeout", "0.5"]) == 1
    assert "gave up after 500 ms" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_can_be_completed(shell, capsys):
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)
    assert "describe" in text and "partitions" in text


def test_bash_takes_the_completion():
    script = f'eval "$({sys.executable} -m ottla completion bash)"; COMP_WORDS=(ottla topi); COMP_CWORD=1; '
    line = script + '_ottla; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["topics"], done.stderr


def test_a_missing_extra_is_a_sentence():
    """As in a process where the packages of the extra are not installed."""
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('pyspark', 'pyarrow', 'numpy', 'pandas')))\n"
        "from ottla.cli.main import main\n"
        "sys.exit(main(['homecare', 'demo']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "pip install 'ottla[spark]'" in done.stderr and "Traceback" not in done.stderr


def test_a_topic_with_very_many_partitions_comes_with_advice(capsys):
    with Broker() as broker:
        assert main(["topics", "create", "few", "--partitions", "12", "-b", broker.bootstrap]) == 0
        assert capsys.readouterr().err == ""
        assert main(["topics", "create", "many", "--partitions", "200", "-b", broker.bootstrap]) == 0
        assert "they cannot be taken away" in capsys.readouterr().err


def test_heads_of_tables_are_in_bold_on_a_terminal_and_plain_elsewhere(monkeypatch, capsys):
    shown = argparse.Namespace(json=False)
    tables.show(shown, ("NAME",), [("a",)])
    assert capsys.readouterr().out == "NAME\na\n"
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    tables.show(shown, ("NAME",), [("a",)])
    assert capsys.readouterr().out == "\033[1mNAME\033[0m\na\n"
    monkeypatch.setenv("NO_COLOR", "1")
    tables.show(shown, ("NAME",), [("a",)])
    assert capsys.readouterr().out == "NAME\na\n"


def test_a_broken_connection_is_a_failure_though_the_reader_of_a_pipe_may_leave(monkeypatch, capfd):
    command = ModuleType("a_command_whose_server_has_gone")

    def run(arguments: argparse.Namespace) -> int:
        ours, theirs = socket.socketpair()
        with ours:
            theirs.close()
            ours.send(b"x")
        return 0

    vars(command).update(add_arguments=lambda parser: None, run=run)
    monkeypatch.setitem(sys.modules, command.__name__, command)
    monkeypatch.setitem(COMMANDS, "gone", (command.__name__, "asks a server"))
    assert main(["gone"]) == 1
    assert capfd.readouterr().err == "ottla gone: [Errno 32] Broken pipe\n"
