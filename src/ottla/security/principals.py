"""Who a certificate stands for: its distinguished name as RFC 2253 writes it, through ssl.principal.mapping.rules."""

import re
from collections.abc import Sequence

from ottla.errors import InvalidConfig, OttlaError
from ottla.frozen import frozen

ANONYMOUS = "User:ANONYMOUS"


class NoPrincipal(OttlaError):
    """The certificate stands for nobody: no rule matches it."""


# A certificate's subject as Python's `ssl` shows it: for each name its attributes, the most general name first.
Subject = Sequence[Sequence[tuple[str, str]]]

# The attributes that RFC 2253 names; Java writes the others by their number.
_SHORT_NAMES = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_NUMBERS = {
    "emailAddress": "1.2.840.113549.1.9.1",
    "serialNumber": "2.5.4.5",
    "surname": "2.5.4.4",
    "givenName": "2.5.4.42",
    "initials": "2.5.4.43",
    "title": "2.5.4.12",
    "generationQualifier": "2.5.4.44",
    "dnQualifier": "2.5.4.46",
    "pseudonym": "2.5.4.65",
}
# How certificates encode them: as IA5String, as PrintableString; the others as UTF8String.
_TAGS = {"emailAddress": 22, "serialNumber": 19, "dnQualifier": 19}
_UTF8_TAG = 12
_SPECIAL = re.compile(r'([,+"\\<>;=])')


def distinguished_name(subject: Subject) -> str:
    """The most specific name first, as Java's X500Principal.getName() has it."""
    return ",".join("+".join(_attribute(*pair) for pair in name) for name in reversed(subject))


def _attribute(kind: str, value: str) -> str:
    if kind in _SHORT_NAMES:
        return f"{_SHORT_NAMES[kind]}={_escaped(value)}"
    return f"{_NUMBERS.get(kind, kind)}=#{_der(kind, value).hex()}"


def _escaped(value: str) -> str:
    escaped = _SPECIAL.sub(r"\\\1", value)
    if escaped[:1] in ("#", " "):
        escaped = "\\" + escaped
    if len(value) > 1 and escaped.endswith(" "):
        escaped = escaped[:-1] + "\\ "
    return escaped


def _der(kind: str, value: str) -> bytes:
    raw = value.encode()
    length = bytes([len(raw)]) if len(raw) < 128 else bytes([0x82, *len(raw).to_bytes(2, "big")])
    return bytes([_TAGS.get(kind, _UTF8_TAG)]) + length + raw


# -- ssl.principal.mapping.rules -----------------------------------------------------------------------------

_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,|$)"
)


@frozen
class _Rule:
    """Without a pattern the name stays as it is."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        mapped = _filled(self.replacement, match)
        return mapped.lower() if self.case == "L" else mapped.upper() if self.case == "U" else mapped


class MappingRules:
    """The first rule that matches the whole distinguished name gives the user's name."""

    def __init__(self, text: str) -> None:
        self._rules = list(_parsed(text.strip() or "DEFAULT"))

    def principal(self, subject: Subject | None) -> str:
        """Raises NoPrincipal if no rule matches; without a certificate it is ANONYMOUS."""
        if not subject:
            return ANONYMOUS
        name = distinguished_name(subject)
        for rule in self._rules:
            mapped = rule.apply(name)
            if mapped is not None:
                return f"User:{mapped}"
        raise NoPrincipal(f"no rule of ssl.principal.mapping.rules matches {name}")


def _parsed(text: str) -> list[_Rule]:
    rules: list[_Rule] = []
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None:
            raise InvalidConfig(
                f"ssl.principal.mapping.rules: {text[position:]!r} is neither DEFAULT nor RULE:pattern/replacement/[LU]"
            )
        position = match.end()
        if match["default"]:
            rules.append(_Rule())
            continue
        try:
            pattern = re.compile(match["pattern"])
        except re.error as error:
            raise InvalidConfig(f"ssl.principal.mapping.rules: {match['pattern']!r}: {error}") from error
        rules.append(_Rule(pattern, match["replacement"], match["case"]))
    return rules


def _filled(replacement: str, match: re.Match[str]) -> str:
    """$1 is the first group, \\x is x: Java's way to write a replacement."""

    def fill(part: re.Match[str]) -> str:
        if part["group"] is None:
            return part["escaped"]
        number = int(part["group"])
        if number > (match.re.groups or 0):
            return part[0]  # not a group: Kafka takes the dollar as it is
        return match[number] or ""

    return re.sub(r"\$(?P<group>\d)|\\(?P<escaped>.)", fill, replacement)
