"""`ottla completion bash|zsh|fish`: what the shell needs to complete commands and options."""

import argparse
from contextlib import suppress
from importlib import import_module

from ottla.cli.main import COMMANDS

SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help='bash: eval "$(ottla completion bash)" in ~/.bashrc')


def run(arguments: argparse.Namespace) -> int:
    words = _words()
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell](words))
    return 0


def _words() -> dict[str, tuple[str, list[str]]]:
    """For each command what it does, and its sub-commands and options."""
    commands = {}
    for name, (module, text) in COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"ottla {name}")
        with suppress(ModuleNotFoundError):  # a command of an extra that is not installed has its name only
            import_module(module).add_arguments(parser)
        commands[name] = (text, sorted(set(_of(parser))))
    return commands


def _of(parser: argparse.ArgumentParser) -> list[str]:
    words: list[str] = []
    for action in parser._actions:
        words += [option for option in action.option_strings if option.startswith("--")]
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                words += [name, *_of(sub)]
    return words


def _bash(words: dict[str, tuple[str, list[str]]]) -> str:
    cases = "\n".join(f'    {name}) words="{" ".join(own)}" ;;' for name, (_, own) in words.items())
    return f"""_ottla() {{
  local words="{" ".join(words)}"
  if [ "$COMP_CWORD" -gt 1 ]; then case "${{COMP_WORDS[1]}}" in
{cases}
    *) words="" ;;
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
  [ ${{#COMPREPLY[@]}} -eq 0 ] && COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -F _ottla ottla"""


def _zsh(words: dict[str, tuple[str, list[str]]]) -> str:
    return f"autoload -U +X bashcompinit && bashcompinit\n{_bash(words)}"


def _fish(words: dict[str, tuple[str, list[str]]]) -> str:
    lines = ["complete -c ottla -f"]
    for name, (text, own) in words.items():
        lines.append(f"complete -c ottla -n __fish_use_subcommand -a {name} -d {_quoted(text)}")
        lines += [
            f"complete -c ottla -n '__fish_seen_subcommand_from {name}' "
            + (f"-l {word.removeprefix('--')}" if word.startswith("--") else f"-a {word}")
            for word in own
        ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    escaped = text.replace("'", "\\'")
    return f"'{escaped}'"
