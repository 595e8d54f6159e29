"""One error for a whole request: every API has words for it, in every version."""

import pytest

from ottla.broker.requests.refusals import refusal
from ottla.broker.requests.responses import encode
from ottla.broker.routes import ROUTES
from ottla.errors import PolicyViolation

VERSIONS = [
    (route.api, version)
    for route in ROUTES.values()
    for version in range(route.version_min, route.version_max + 1)
]


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=lambda each: getattr(each, "name", str(each)))
def test_every_request_can_be_refused_in_its_own_version(api, version):
    made = refusal(api, version, api.request()(), PolicyViolation("no"))
    assert encode(api, version, 1, made)
