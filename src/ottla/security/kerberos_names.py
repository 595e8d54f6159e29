"""Which user a Kerberos principal stands for: sasl.kerberos.principal.to.local.rules, as Kafka reads them."""

import re

from ottla.errors import InvalidConfig, OttlaError
from ottla.frozen import frozen

SETTING = "sasl.kerberos.principal.to.local.rules"
_PRINCIPAL = re.compile(r"(?P<service>[^/@]*)(?:/(?P<host>[^/@]*))?@(?P<realm>[^/@]*)")
_RULE = re.compile(
    r"(?P<default>DEFAULT)"
    r"|RULE:\[(?P<components>\d+):(?P<form>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER = re.compile(r"\$(\d*)|[^$]+")
_NOT_SIMPLE = re.compile("[/@]")


class NoLocalName(OttlaError):
    """The principal stands for nobody: no rule applies to it, or what a rule makes of it is no user's name."""


@frozen
class Principal:
    """service/host@REALM; people have no host."""

    service: str
    host: str | None
    realm: str | None

    @classmethod
    def parse(cls, text: str) -> "Principal":
        parts = _PRINCIPAL.fullmatch(text)
        if parts is not None:
            return cls(parts["service"], parts["host"], parts["realm"])
        if "@" in text:
            raise NoLocalName(f"{text} is not of the form name/host@REALM")
        return cls(text, None, None)

    def components(self) -> list[str]:
        """$0, $1 and $2 of a rule."""
        host = [] if self.host is None else [self.host]
        return [self.realm or "", self.service, *host]


@frozen
class _Rule:
    """Without a `form` it is DEFAULT: the first component, of principals of our own realm."""

    form: str | None = None
    count: int = 0
    match: re.Pattern[str] | None = None
    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    replaces_all: bool = False
    case: str = ""

    def apply(self, components: list[str], default_realm: str) -> str | None:
        name = self._name(components, default_realm)
        if name is None:
            return None
        if _NOT_SIMPLE.search(name):
            raise NoLocalName(f"a rule of {SETTING} makes {name} of it, which is not a simple name")
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name

    def _name(self, components: list[str], default_realm: str) -> str | None:
        if self.form is None:
            return components[1] if components[0] == default_realm else None
        if len(components) - 1 != self.count:
            return None
        base = _filled(self.form, components)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        if self.pattern is None:
            return base
        return self.pattern.sub(self._substitute, base, count=0 if self.replaces_all else 1)

    def _substitute(self, match: re.Match[str]) -> str:
        """$1 is the first group: Java's way to write a replacement."""
        try:
            return re.sub(r"\$(\d)", lambda group: match[int(group[1])] or "", self.replacement)
        except IndexError:
            raise NoLocalName(f"{SETTING}: {self.replacement!r} names a group that is not there") from None


class LocalNames:
    """The first rule that applies gives the user's name."""

    def __init__(self, rules: str, default_realm: str) -> None:
        texts = [rule.strip() for rule in _split(rules.strip() or "DEFAULT")]
        self._rules = [_parsed(text) for text in texts]
        self._default_realm = default_realm

    def name(self, principal: str) -> str:
        parsed = Principal.parse(principal)
        if parsed.host is None and parsed.realm is None:
            return parsed.service
        for rule in self._rules:
            name = rule.apply(parsed.components(), self._default_realm)
            if name is not None:
                return name
        raise NoLocalName(f"no rule of {SETTING} applies to {principal}")


def _split(text: str) -> list[str]:
    """At the commas between rules: Kafka reads the setting as a list, so that a rule cannot hold a comma."""
    return [part for part in text.split(",") if part.strip()]


def _parsed(text: str) -> _Rule:
    rule = _RULE.fullmatch(text)
    if rule is None:
        raise InvalidConfig(
            f"{SETTING}: {text!r} is neither DEFAULT nor RULE:[n:format](regexp)s/pattern/replacement/g/L"
        )
    if rule["default"]:
        return _Rule()
    return _Rule(
        rule["form"],
        int(rule["components"]),
        _compiled(rule["match"]),
        _compiled(rule["pattern"]),
        rule["replacement"] or "",
        rule["all"] is not None,
        rule["case"] or "",
    )


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidConfig(f"{SETTING}: {pattern!r}: {error}") from error


def _filled(form: str, components: list[str]) -> str:
    def fill(part: re.Match[str]) -> str:
        if part[1] is None:
            return part[0]
        number = int(part[1] or -1)
        if not 0 <= number < len(components):
            raise NoLocalName(f"{SETTING}: ${part[1]} of {form!r} is not a component of the principal")
        return components[number]

    return _PARAMETER.sub(fill, form)
