"""What somebody sees who types something wrong, or wants to know what is installed."""

import io
import socket
import subprocess
import sys

import pytest

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


def test_a_port_that_does_not_exist_and_one_that_is_taken(capsys):
    assert main(["start", "--memory", "--port", "99999"]) == 1
    assert "there is no port 99999" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["start", "--memory", "--port", str(port)]) == 1
    assert "another program listens there already" in capsys.readouterr().err


def test_a_broker_that_is_not_there_is_told_of_at_once_and_given_up_in_time(capsys):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        nobody = silent.getsockname()[1]
    assert main(["topics", "list", "-b", f"127.0.0.1:{nobody}", "--timeout", "0.5"]) == 1
    told = capsys.readouterr().err
    assert "Is the broker running" in told
    assert "gave up after 500 ms" in told


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
