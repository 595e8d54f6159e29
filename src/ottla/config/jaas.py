"""A JAAS entry: a login module, a flag, and options. As sasl.jaas.config has it, or in a section of a JAAS file."""

import re

from ottla.errors import InvalidConfig
from ottla.frozen import frozen

_ENTRY = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?P<flag>\w+)(?P<options>.*?);?\s*", re.S)
_OPTION = re.compile(r"""\s*(?P<name>[\w.\-]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s";]+))""")
_COMMENT = re.compile(r"""("(?:[^"\\]|\\.)*")|/\*.*?\*/|//[^\n]*""", re.S)
_SECTION = re.compile(r"""(?P<name>[\w.\-]+)\s*\{(?P<entries>(?:[^{}"]|"(?:[^"\\]|\\.)*")*)\}\s*;""")
_ENTRIES = re.compile(r"""(?:[^;"]|"(?:[^"\\]|\\.)*")+""")


@frozen
class Jaas:
    HIDDEN = ("options",)

    module: str
    options: dict[str, str]

    @property
    def users(self) -> dict[str, str]:
        """Of PlainLoginModule: user_NAME="PASSWORD"."""
        prefix = "user_"
        return {
            name.removeprefix(prefix): text for name, text in self.options.items() if name.startswith(prefix)
        }


def parse_jaas(text: str, setting: str) -> Jaas:
    """The error names the setting and never its text, which holds passwords."""
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise InvalidConfig(f'{setting} is not of the form `LoginModule required name="value" ...;`')
    options: dict[str, str] = {}
    rest = entry["options"]
    position = 0
    while rest[position:].strip():
        option = _OPTION.match(rest, position)
        if option is None:
            raise InvalidConfig(f'{setting}: option {len(options) + 1} is not of the form name="value"')
        quoted = option["quoted"]
        options[option["name"]] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else option["plain"]
        position = option.end()
    return Jaas(entry["module"], options)


def jaas_sections(text: str) -> dict[str, list[str]]:
    """The entries of each section of a JAAS file."""
    without_comments = _COMMENT.sub(lambda match: match[1] or " ", text)
    return {
        section["name"]: [entry.strip() for entry in _ENTRIES.findall(section["entries"]) if entry.strip()]
        for section in _SECTION.finditer(without_comments)
    }
