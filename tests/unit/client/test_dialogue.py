import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.core.dialogue import Dialogue, Frames
from ottla.client.errors import ConnectionLost, NotSupported
from ottla.wire import codec
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse


@given(
    sizes=st.lists(st.sampled_from([0, 1, 3, 59, 60, 61, 64, 200]), max_size=8),
    steps=st.lists(st.integers(1, 100), min_size=1, max_size=5),
)
def test_frames_come_out_whole_however_they_arrive(sizes: list[int], steps: list[int]) -> None:
    sent = [bytes([i % 251]) * size for i, size in enumerate(sizes)]
    stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in sent)
    frames, got, at, turn = Frames(1 << 20, small_bytes=64), [], 0, 0
    while at < len(stream):
        buffer = frames.buffer()
        step = min(steps[turn % len(steps)], len(buffer), len(stream) - at)
        buffer[:step] = stream[at : at + step]
        got += [bytes(frame) for frame in frames.received(step)]
        at, turn = at + step, turn + 1
    assert got == sent


@pytest.mark.parametrize("size", [-1, 1001])
def test_an_absurd_frame_size_ends_the_connection(size: int) -> None:
    frames = Frames(1000)
    frames.buffer()[:4] = struct.pack(">i", size)
    with pytest.raises(ConnectionLost, match="announced"):
        frames.received(4)


def learned(*apis: tuple[int, int, int]) -> Dialogue:
    dialogue = Dialogue("me")
    keys = [ApiVersion(api_key=k, min_version=low, max_version=high) for k, low, high in apis]
    dialogue.learn(ApiVersionsResponse(api_keys=keys))
    return dialogue


def test_the_newest_version_that_both_know_is_chosen() -> None:
    assert learned((3, 0, 5)).version_for(MetadataRequest) == 5
    assert learned((3, 0, 99)).version_for(MetadataRequest) == MetadataRequest.VERSIONS[1]
    assert learned((3, 0, 99)).version_for(MetadataRequest, at_most=4) == 4


def test_what_the_broker_lacks_is_told_by_name() -> None:
    with pytest.raises(NotSupported, match="does not serve Metadata"):
        learned().version_for(MetadataRequest)
    with pytest.raises(NotSupported, match="0 to 3"):
        learned((3, 0, 3)).version_for(MetadataRequest, at_least=4)


@pytest.mark.parametrize("version", [0, 5, 9, 13])
def test_an_answer_is_read_in_the_form_of_its_request(version: int) -> None:
    dialogue = learned()
    correlation_id, _ = dialogue.request(MetadataRequest(topics=[]), version)
    header = struct.pack(">i", correlation_id) + (b"\0" if version >= 9 else b"")
    frame = header + bytes(codec.write(MetadataResponse(controller_id=7), version))
    got_id, answer = dialogue.response(memoryview(frame))
    assert got_id == correlation_id
    assert answer.controller_id == (7 if version else MetadataResponse().controller_id)


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    with pytest.raises(ConnectionLost, match="not asked"):
        learned().response(memoryview(struct.pack(">i", 5)))


def test_a_broker_too_old_for_our_api_versions_is_understood() -> None:
    dialogue = Dialogue("me")
    correlation_id, _ = dialogue.request(ApiVersionsRequest(), 4)
    refusal = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, max_version=2)])
    frame = struct.pack(">i", correlation_id) + bytes(codec.write(refusal, 0))
    assert dialogue.response(memoryview(frame))[1].api_keys[0].max_version == 2
