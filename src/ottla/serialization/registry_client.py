"""A client of a schema registry, Ottla's or Confluent's: asks once, remembers what cannot change."""

import base64
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from ottla.errors import OttlaError

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_SETTINGS = {
    "url",
    "basic.auth.user.info",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
}


class RegistryRefused(OttlaError):
    """What the registry answered; `code` is its own, `status` that of HTTP."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(f"{message} (code {code})")
        self.status, self.code = status, code


@dataclass(frozen=True)
class RegisteredSchema:
    schema_id: int
    schema: str
    schema_type: str = "AVRO"
    references: tuple[Mapping[str, Any], ...] = ()
    guid: str = ""
    version: int | None = None
    subject: str | None = None


class RegistryClient:
    """`url` may name several instances, separated by commas: the next is asked when one does not answer.

    `user` is a pair of name and password. `ca` is the file of the authority that signed the registry's certificate;
    `certificate` and `key` are the client's own. `of` takes the settings of Confluent's clients instead.
    """

    def __init__(
        self,
        url: str,
        *,
        user: tuple[str, str] | None = None,
        ca: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        key_password: str | None = None,
        timeout_s: float = 10,
        cached_max: int = 10_000,
    ) -> None:
        url, named = _without_user(url)
        user = user or named
        self._urls = [address.strip().rstrip("/") for address in url.split(",") if address.strip()]
        self._timeout_s = timeout_s
        self._headers = {"Content-Type": _CONTENT_TYPE, "Accept": _CONTENT_TYPE}
        if user is not None:
            token = base64.b64encode(":".join(user).encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        self._files = ca, certificate, key, key_password
        self._known = _Kept(cached_max)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "RegistryClient":
        """By the names of confluent-kafka's and Java's clients: `url` or `schema.registry.url`,
        `basic.auth.user.info`, `ssl.ca.location`, `ssl.certificate.location`, `ssl.key.location`, `ssl.key.password`,
        each with or without `schema.registry.` before it."""
        known = {str(name).removeprefix("schema.registry."): value for name, value in settings.items()}
        wrong = sorted(known.keys() - _SETTINGS)
        if wrong or "url" not in known:
            what = f"{wrong[0]} is not known" if wrong else "url is missing"
            raise OttlaError(
                f"settings of a registry's client: {what}; known are {', '.join(sorted(_SETTINGS))}"
            )
        info = known.get("basic.auth.user.info")
        return cls(
            str(known["url"]),
            user=None if info is None else _pair(str(info)),
            ca=known.get("ssl.ca.location"),
            certificate=known.get("ssl.certificate.location"),
            key=known.get("ssl.key.location"),
            key_password=known.get("ssl.key.password"),
        )

    @cached_property
    def _tls(self) -> ssl.SSLContext | None:
        ca, certificate, key, password = self._files
        if ca is None and certificate is None:
            return None
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(certificate, key, password)
        return context

    def __getstate__(self) -> dict[str, Any]:
        """Travels to Spark's workers without what only this process can use."""
        return {name: value for name, value in vars(self).items() if name != "_tls"}

    # -- schemas ---------------------------------------------------------------------------------------

    def register(
        self,
        subject: str,
        schema: str,
        schema_type: str = "AVRO",
        references: Sequence[Mapping[str, Any]] = (),
        *,
        normalize: bool = False,
    ) -> RegisteredSchema:
        """The schema's id; a schema that the subject has keeps its own."""
        path = f"/subjects/{quote(subject, safe='')}/versions?normalize={str(normalize).lower()}"
        return self._registered("POST", path, schema, schema_type, references)

    def lookup(
        self,
        subject: str,
        schema: str,
        schema_type: str = "AVRO",
        references: Sequence[Mapping[str, Any]] = (),
        *,
        normalize: bool = False,
    ) -> RegisteredSchema:
        """As `register` for a schema that the subject must have."""
        path = f"/subjects/{quote(subject, safe='')}?normalize={str(normalize).lower()}"
        return self._registered("POST", path, schema, schema_type, references)

    def schema(self, schema_id: int, *, form: str = "") -> RegisteredSchema:
        """By id. `form="serialized"` gives a Protobuf schema as the base64 of its descriptor."""
        return self._by(f"/schemas/ids/{schema_id}", form, schema_id)

    def schema_by_guid(self, guid: str, *, form: str = "") -> RegisteredSchema:
        return self._by(f"/schemas/guids/{guid}", form, -1)

    def version(self, subject: str, version: int | str = "latest", *, form: str = "") -> RegisteredSchema:
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        if version == "latest":
            return _of_answer(self.ask("GET", path + _form(form)))
        return self._by(path + "?deleted=true", form, -1)

    def subjects(self, *, deleted: bool = False) -> list[str]:
        return list(self.ask("GET", "/subjects" + ("?deleted=true" if deleted else "")))

    # -- asking ----------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Any path of the registry's API: what it answers, decoded."""
        failure: Exception | None = None
        for url in self._urls:
            try:
                return self._ask(url, method, path, body)
            except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
                if isinstance(error, urllib.error.HTTPError):
                    raise
                failure = error
        reason = getattr(failure, "reason", failure)
        raise OttlaError(f"no schema registry answers at {', '.join(self._urls)}: {reason}")

    def _ask(self, url: str, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url + path, data, self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s, context=self._tls) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            raise _refused(error) from None

    def _registered(
        self, method: str, path: str, schema: str, schema_type: str, references: Sequence[Mapping[str, Any]]
    ) -> RegisteredSchema:
        body: dict[str, Any] = {"schema": schema, "schemaType": schema_type}
        if references:
            body["references"] = [dict(reference) for reference in references]
        key = (path, json.dumps(body))
        known = self._known.get(key)
        if known is None:
            answer = {**body, **self.ask(method, path, body)}
            known = self._known.put(key, _of_answer(answer))
        return known

    def _by(self, path: str, form: str, schema_id: int) -> RegisteredSchema:
        path += _form(form, "&" if "?" in path else "?")
        known = self._known.get(path)
        if known is None:
            known = self._known.put(path, _of_answer({"id": schema_id, **self.ask("GET", path)}))
        return known


@dataclass
class _Kept:
    """Ids and their schemas never change: the ones that were used last are kept."""

    most: int
    _values: "OrderedDict[Any, RegisteredSchema]" = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Any) -> RegisteredSchema | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Any, value: RegisteredSchema) -> RegisteredSchema:
        with self._lock:
            self._values[key] = value
            while len(self._values) > self.most:
                self._values.popitem(last=False)
        return value

    def __getstate__(self) -> int:
        """Travels to Spark's workers empty."""
        return self.most

    def __setstate__(self, most: int) -> None:
        self.most, self._values, self._lock = most, OrderedDict(), threading.Lock()


def _without_user(url: str) -> tuple[str, tuple[str, str] | None]:
    """`http://name:password@host`: the address, and who asks. Of several addresses the first names the user."""
    plain, user = [], None
    for address in url.split(","):
        parts = urlsplit(address.strip())
        if parts.username is not None:
            user = user or (unquote(parts.username), unquote(parts.password or ""))
            parts = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        plain.append(urlunsplit(parts))
    return ",".join(plain), user


def _pair(text: str) -> tuple[str, str]:
    name, colon, password = text.partition(":")
    if not colon:
        raise OttlaError("basic.auth.user.info is NAME:PASSWORD")
    return name, password


def _form(form: str, sign: str = "?") -> str:
    return f"{sign}format={form}" if form else ""


def _of_answer(answer: Mapping[str, Any]) -> RegisteredSchema:
    return RegisteredSchema(
        int(answer["id"]),
        str(answer["schema"]),
        answer.get("schemaType") or "AVRO",
        tuple(answer.get("references") or ()),
        answer.get("guid") or "",
        answer.get("version"),
        answer.get("subject"),
    )


def _refused(error: urllib.error.HTTPError) -> RegistryRefused:
    try:
        answer = json.loads(error.read())
        return RegistryRefused(error.code, int(answer["error_code"]), str(answer["message"]))
    except (ValueError, KeyError, TypeError):
        return RegistryRefused(error.code, error.code, str(error.reason))
