"""What REST answers when something cannot be done: Kafka's codes and sentences."""


class Refusal(Exception):
    """An answer with an error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def bad_request(message: str) -> Refusal:
    return Refusal(400, message)


def not_found(message: str) -> Refusal:
    return Refusal(404, message)


def no_connector(name: str) -> Refusal:
    return Refusal(404, f"Connector {name} not found")


def conflict(message: str) -> Refusal:
    return Refusal(409, message)


def failed(message: str) -> Refusal:
    return Refusal(500, message)
