"""Names of subjects: `:.context:subject` in a context, or the name alone in the default context `.`."""

from ottla.registry import errors

DEFAULT = "."
GLOBAL = "__GLOBAL"
_RESERVED = {GLOBAL, "__EMPTY"}


def context_of(subject: str | None) -> str:
    if subject and subject.startswith(":."):
        end = subject.find(":", 1)
        return subject[1:] if end < 0 else subject[1:end]
    return DEFAULT


def qualified(context: str, subject: str) -> str:
    return subject if context == DEFAULT else f":{context}:{subject}"


def normal(subject: str) -> str:
    """`:.:name` is `name`."""
    return subject[3:] if subject.startswith(":.:") else subject


def checked(subject: str) -> str:
    name = normal(subject)
    bare = name.rpartition(":")[2] if name.startswith(":.") else name
    if not bare or bare in _RESERVED or any(ord(character) < 32 for character in bare):
        raise errors.invalid_subject(subject)
    return name


def is_context(subject: str) -> bool:
    """Whether the name is a whole context, as `:.staging:`."""
    return subject.startswith(":.") and subject.endswith(":") and subject.count(":") == 2
