from hypothesis import given
from hypothesis import strategies as st

from ottla.client.core.sessions import FetchSession
from ottla.client.values import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
IDS = {"t": b"a" * 16}


def test_the_first_request_tells_all_and_later_ones_what_changed() -> None:
    session = FetchSession()
    assert session.plan({P0: (0, 1, -1), P1: (5, 1, -1)}, IDS) == ({P0: (0, 1, -1), P1: (5, 1, -1)}, [])
    assert (session.id, session.epoch) == (0, 0)
    session.answered(9)
    assert session.plan({P0: (3, 1, -1)}, IDS) == ({P0: (3, 1, -1)}, [P1])
    assert (session.id, session.epoch) == (9, 1)
    session.answered(9)
    assert session.epoch == 2


def test_a_broker_without_room_is_told_everything_every_time() -> None:
    session = FetchSession()
    session.plan({P0: (0, 1, -1)}, IDS)
    session.answered(0)
    assert session.plan({P0: (0, 1, -1)}, IDS) == ({P0: (0, 1, -1)}, [])


def test_a_topic_made_anew_starts_a_new_session() -> None:
    session = FetchSession()
    session.plan({P0: (0, 1, -1)}, IDS)
    session.answered(9)
    assert session.plan({P0: (0, 1, -1)}, {"t": b"b" * 16}) == ({P0: (0, 1, -1)}, [])
    assert (session.id, session.epoch) == (0, 0)


wishes = st.dictionaries(
    st.sampled_from([TopicPartition("t", i) for i in range(4)]),
    st.tuples(st.integers(0, 3), st.just(0), st.just(-1)),
)


@given(st.lists(st.tuples(wishes, st.sampled_from([0, 7, 8]))))
def test_the_broker_always_knows_exactly_what_is_wanted(rounds) -> None:
    session, remembered = FetchSession(), {}
    for wanted, answer in rounds:
        if session.id == 0:
            remembered = {}
        send, forget = session.plan(wanted, IDS)
        for partition in forget:
            remembered.pop(partition, None)
        remembered.update(send)
        assert remembered == wanted
        # The broker keeps the id that it gave, or has lost the session and gives another or none.
        session.answered(answer if session.id in (0, answer) or answer == 0 else session.id)
