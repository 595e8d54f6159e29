"""What browsers send: the fields of a form, bounded; and where a form may lead."""

from urllib.parse import parse_qsl

from starlette.requests import Request

from ottla.console.context import BadRequest

FORM_BYTES_MAX = 2 * 1024 * 1024
FIELDS_MAX = 100


def local(address: str) -> str:
    """An address of this console: a form must not lead elsewhere."""
    is_local = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if is_local else "/"


async def body(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > FORM_BYTES_MAX:
            raise BadRequest(f"more than {FORM_BYTES_MAX} bytes")
    return bytes(data)


async def fields(request: Request) -> dict[str, str]:
    """An ordinary form's fields."""
    text = (await body(request)).decode(errors="replace")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS_MAX))
    except ValueError as error:
        raise BadRequest(f"more than {FIELDS_MAX} fields") from error
