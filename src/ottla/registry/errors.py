"""What the registry refuses, with the status, the code and the words that Confluent's clients know."""

from ottla.errors import OttlaError


class RegistryError(OttlaError):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class ReferencesMet(Exception):
    """Subjects that a schema refers to, and of which it is not known yet whether the user may read them."""

    def __init__(self, subjects: frozenset[str]) -> None:
        super().__init__(f"rights to {', '.join(sorted(subjects))} are needed")
        self.subjects = subjects


def denied(operation: str, about: str) -> RegistryError:
    return RegistryError(403, 40301, f"User is denied operation {operation} on {about}")


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    return RegistryError(404, 40402, f"Version {version} not found.")


def schema_not_found(which: object = "") -> RegistryError:
    return RegistryError(404, 40403, f"Schema {which} not found" if which else "Schema not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    words = f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
    return RegistryError(404, 40404, words)


def subject_not_soft_deleted(subject: str) -> RegistryError:
    words = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return RegistryError(404, 40405, words)


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    words = (
        f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    )
    return RegistryError(404, 40406, words)


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    words = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return RegistryError(404, 40407, words)


def no_compatibility(subject: str) -> RegistryError:
    words = f"Subject '{subject}' does not have subject-level compatibility configured"
    return RegistryError(404, 40408, words)


def no_mode(subject: str) -> RegistryError:
    return RegistryError(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def invalid_schema(reason: str) -> RegistryError:
    return RegistryError(422, 42201, f"Invalid schema: {reason}")


def invalid_version(version: object) -> RegistryError:
    words = (
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"'
    )
    return RegistryError(422, 42202, words)


def invalid_compatibility() -> RegistryError:
    words = (
        "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive"
    )
    return RegistryError(422, 42203, words)


def invalid_mode() -> RegistryError:
    words = "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT, and FORWARD"
    return RegistryError(422, 42204, words)


def not_permitted(reason: str) -> RegistryError:
    return RegistryError(422, 42205, reason)


def references_exist(subject: str, version: int) -> RegistryError:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RegistryError(422, 42206, f"One or more references exist to the schema {key}.")


def id_is_taken(schema_id: int, context: str) -> RegistryError:
    return not_permitted(f"Overwrite new schema with id {schema_id} in context {context} is not permitted.")


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(422, 42208, f"The specified subject '{subject}' is not a valid.")


def too_large(reason: str) -> RegistryError:
    return RegistryError(422, 42209, f"Write failed because schema is too large: {reason}")


def invalid_rules(reason: str) -> RegistryError:
    return RegistryError(422, 42210, reason)


def incompatible(subject: str, messages: list[str]) -> RegistryError:
    words = (
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: '
    )
    return RegistryError(409, 409, words + "[" + ", ".join(messages) + "]")


def unprocessable(reason: str) -> RegistryError:
    return RegistryError(422, 422, reason)


def store_failed(reason: str) -> RegistryError:
    return RegistryError(500, 50001, f"Error in the backend data store: {reason}")


def timed_out(reason: str) -> RegistryError:
    return RegistryError(500, 50002, f"Operation timed out: {reason}")


def forwarding_failed(reason: str) -> RegistryError:
    return RegistryError(500, 50003, f"Error while forwarding the request to the leader: {reason}")


def no_leader() -> RegistryError:
    return RegistryError(500, 50004, "The leader of the registry is not known; try again")
