"""How often a JSON Schema looks at one place of a value, and whether a value is worth that.

A schema that refers to itself twice at one place does so four times a level deeper. The library checks a value in one
call that nobody can interrupt and that holds Python's lock: a few hundred bytes would stop a process for good.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

from ottla.serialization.framing import BadValue
from ottla.serialization.json_pointer import Schema, pointed

LOOKS_MAX = 2_000_000  # at all places of a value: some hundred milliseconds
FEW_LOOKS = 64  # at one place; with so many the length of a value is bound enough
DEPTH_MAX = 256  # the library refuses values that nest deeper
NODES_MAX = 200_000
STEPS_MAX = 500_000  # of counting for one value
_LISTS_HERE = ("allOf", "anyOf", "oneOf")
_ONES_HERE = ("not", "if", "then", "else")
_MAPS_HERE = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_BELOW = (
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "propertyNames",
    "patternProperties",
)


class Looks:
    """`check` refuses values at which the schema would look too often."""

    def __init__(self, schema: Schema, references: Mapping[str, Schema]) -> None:
        self._schema = schema
        self._graph = _Graph(schema, references)
        self._by_depth = self._counted(schema)

    @property
    def are_few(self) -> bool:
        return max(self._by_depth) <= FEW_LOOKS

    def check(self, value: Any) -> None:
        if not self.are_few and not self._is_within_bounds(value) and not self._is_worth_it(value):
            raise BadValue(
                "the schema refers to its parts so often that the value cannot be checked: simplify the schema, or "
                "nest the value less"
            )

    def _is_within_bounds(self, value: Any) -> bool:
        """By depths alone, as if every place had the properties for which the schema has most to look at."""
        total, level, depth = 0, [value], 0
        while level and total <= LOOKS_MAX:
            total += len(level) * self._by_depth[min(depth, len(self._by_depth) - 1)]
            level = [inner for outer in level for _, inner in _parts(outer)]
            depth += 1
        return total <= LOOKS_MAX

    def _is_worth_it(self, value: Any) -> bool:
        """By the names that the value has."""
        total = steps = 0
        todo = [(value, self._graph.here({id(self._schema): 1}))]
        while todo:
            place, counts = todo.pop()
            total += sum(counts.values())
            for name, inner in _parts(place):
                below = self._graph.below(counts, name)
                steps += len(counts) + len(below)
                if total > LOOKS_MAX or steps > STEPS_MAX:
                    return False
                todo.append((inner, below))
        return total <= LOOKS_MAX

    def _counted(self, schema: Schema) -> list[int]:
        """At one place of each depth, at most; the last number is for all that are deeper."""
        counts, by_depth, seen = self._graph.here({id(schema): 1}), [], set()
        for _ in range(DEPTH_MAX):
            by_depth.append(sum(counts.values()))
            fingerprint = hash(frozenset(counts.items()))
            if not counts or fingerprint in seen or by_depth[-1] > LOOKS_MAX:
                break
            seen.add(fingerprint)
            counts = self._graph.most_below(counts)
        return [*by_depth, max(by_depth)]


class _Graph:
    """Which parts of a schema look at the same place, and which at the places below it."""

    def __init__(self, schema: Schema, references: Mapping[str, Schema]) -> None:
        self._nodes: dict[int, dict[str, Any]] = {}
        self._bases: dict[int, str] = {}
        self._known: dict[str, Schema] = {}  # by address
        self._note("", schema)
        for name, document in references.items():
            self._note(name, document)
        self._here = {at: self._beside(at, node) for at, node in self._nodes.items()}

    def _note(self, name: str, document: Schema) -> None:
        """All that may be a schema: every object in it."""
        self._known[name] = self._known[f"{name}#"] = document
        todo: list[tuple[str, Any]] = [(name, document)]
        while todo:
            base, part = todo.pop()
            if isinstance(part, list):
                todo += ((base, inner) for inner in part)
            elif isinstance(part, dict) and id(part) not in self._nodes:
                base = self._named(base, part)
                self._nodes[id(part)], self._bases[id(part)] = part, base
                if len(self._nodes) > NODES_MAX:
                    raise BadValue(f"the schema has more than {NODES_MAX} parts")
                todo += ((base, inner) for inner in part.values())

    def _named(self, base: str, part: dict[str, Any]) -> str:
        for keyword in ("$id", "id"):
            if isinstance(part.get(keyword), str):
                base = urljoin(base, part[keyword]).removesuffix("#")
                self._known[base] = part
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(part.get(keyword), str):
                self._known[f"{base}#{part[keyword]}"] = part
        return base

    def _beside(self, at: int, node: dict[str, Any]) -> list[int]:
        schemas = [inner for keyword in _LISTS_HERE for inner in _listed(node.get(keyword))]
        schemas += [node[keyword] for keyword in _ONES_HERE if keyword in node]
        schemas += [inner for keyword in _MAPS_HERE for inner in _mapped(node.get(keyword))]
        for keyword in _REFERENCES:
            if isinstance(node.get(keyword), str):
                schemas.append(self._resolved(self._bases[at], node[keyword]))
        return [id(inner) for inner in schemas if id(inner) in self._nodes]

    def _resolved(self, base: str, address: str) -> Schema:
        if address.partition("://")[2].startswith("json-schema.org/"):
            return True  # what describes schemas themselves
        for whole in (urljoin(base, address), base + address, address):
            document, _, pointer = whole.partition("#")
            if whole in self._known:
                return self._known[whole]
            if document in self._known and pointer.startswith("/"):
                return pointed(self._known[document], pointer)
        raise BadValue(f"the schema refers to {address[:100]}, which is not known here")

    def here(self, counts: dict[int, int]) -> dict[int, int]:
        """How often each part looks at a place at which these begin. One that comes back to itself stops there."""
        result = dict(counts)
        for at in self._in_order(counts):
            for inner in self._here[at]:
                if (at, inner) not in self._backwards:
                    result[inner] = result.get(inner, 0) + result[at]
        return result

    def _in_order(self, starts: Mapping[int, int]) -> list[int]:
        """What refers to a part comes before it."""
        self._backwards: set[tuple[int, int]] = set()
        done, active, order = set(), set(), []
        for start in starts:
            todo = [(start, False)] if start in self._here else []
            while todo:
                at, is_left = todo.pop()
                if is_left:
                    active.discard(at)
                    done.add(at)
                    order.append(at)
                elif at not in done and at not in active:
                    active.add(at)
                    todo.append((at, True))
                    for inner in self._here[at]:
                        if inner in active:
                            self._backwards.add((at, inner))
                        elif inner not in done:
                            todo.append((inner, False))
        return order[::-1]

    def below(self, counts: dict[int, int], name: str) -> dict[int, int]:
        """How often each part looks at the property of this name; at an item if there is none of it."""
        begin: dict[int, int] = {}
        for at, count in counts.items():
            node = self._nodes.get(at, {})
            properties = node.get("properties")
            if isinstance(properties, dict):
                _add(begin, properties.get(name), count)
            for inner in _schemas_below(node):
                _add(begin, inner, count)
        return self.here(begin)

    def most_below(self, counts: dict[int, int]) -> dict[int, int]:
        """At the place one level deeper at which each part looks most often."""
        names = {name for at in counts for name in _names(self._nodes.get(at, {}))}
        most: dict[int, int] = {}
        if len(names) * len(counts) > STEPS_MAX:
            return {at: count * LOOKS_MAX for at, count in counts.items()}  # counted for each value, then
        for name in ("", *names):
            for inner_at, count in self.below(counts, name).items():
                most[inner_at] = max(most.get(inner_at, 0), count)
        return most


def _names(node: dict[str, Any]) -> Iterable[str]:
    properties = node.get("properties")
    return properties if isinstance(properties, dict) else ()


def _schemas_below(node: dict[str, Any]) -> Iterator[Schema]:
    for keyword in _BELOW:
        below = node.get(keyword)
        if keyword == "patternProperties":
            yield from _mapped(below)
        elif isinstance(below, list):
            yield from below
        else:
            yield below


def _add(counts: dict[int, int], schema: Schema, count: int) -> None:
    if isinstance(schema, dict):
        counts[id(schema)] = counts.get(id(schema), 0) + count


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapped(value: Any) -> Iterator[Any]:
    return iter(value.values()) if isinstance(value, dict) else iter(())


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """With their names; items of arrays have none."""
    if isinstance(value, dict):
        return iter(value.items())
    return (("", item) for item in value) if isinstance(value, list) else iter(())
