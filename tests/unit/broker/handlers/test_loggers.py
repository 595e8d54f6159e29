import logging

import pytest

from ottla import errors
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.broker.handlers.served import Served

BROKER_LOGGER, SET = 8, 0
LONG_NAME = "1" * 5000  # Python reads no number of more than 4300 digits


@pytest.fixture
def level():
    """Of the logger that is altered."""
    logger = logging.getLogger("ottla.share")
    before = logger.level
    yield lambda: logger.level
    logger.setLevel(before)


def test_a_broker_id_of_very_many_digits_is_refused_and_the_other_resource_is_altered(level):
    served = Served()
    resources = [
        AlterConfigsResource(
            resource_type=BROKER_LOGGER,
            resource_name=name,
            configs=[AlterableConfig(name="ottla.share", config_operation=SET, value="ERROR")],
        )
        for name in (str(served.broker.node_id), LONG_NAME)
    ]
    answer = served.answer(IncrementalAlterConfigsRequest(resources=resources))
    assert [result.error_code for result in answer.responses] == [0, errors.InvalidRequest.code]
    assert level() == logging.ERROR


def test_loggers_of_a_broker_id_of_very_many_digits_are_not_described():
    resource = DescribeConfigsResource(resource_type=BROKER_LOGGER, resource_name=LONG_NAME)
    (result,) = Served().answer(DescribeConfigsRequest(resources=[resource])).results
    assert result.error_code == errors.InvalidRequest.code
