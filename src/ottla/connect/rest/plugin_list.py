"""Converters, transforms and predicates, for those who ask for more than connectors."""

from ottla.connect.store.statuses import VERSION


def others() -> list[dict[str, str]]:
    from ottla.connect.converters import HEADER_ONLY, NAMES
    from ottla.connect.transforms import PACKAGE
    from ottla.connect.transforms.predicates import PREDICATES
    from ottla.connect.transforms.table import TRANSFORMS

    return [
        *(_described(name, "converter") for name in NAMES),
        *(_described(name, "header_converter") for name in (HEADER_ONLY, *NAMES)),
        *(_described(f"{PACKAGE}predicates.{name}", "predicate") for name in PREDICATES),
        *(
            _described(f"{PACKAGE}{name}{side}", "transformation")
            for name, (_, _, sided) in TRANSFORMS.items()
            for side in (("$Key", "$Value") if sided else ("",))
        ),
    ]


def _described(name: str, kind: str) -> dict[str, str]:
    return {"class": name, "type": kind, "version": VERSION}
