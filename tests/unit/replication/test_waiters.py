"""Waiting for an offset."""

from functools import partial

from ottla.replication.waiters import Waiters


def test_those_whose_offset_is_reached_are_woken_once_and_in_order():
    waiters, woken = Waiters(), []
    for offset in (5, 3, 9):
        waiters.add(offset, partial(woken.append, offset))
    waiters.on_reached(2)
    assert woken == []
    waiters.on_reached(5)
    waiters.on_reached(5)
    assert woken == [3, 5]
    assert len(waiters) == 1


def test_a_cancelled_ticket_is_not_woken():
    waiters, woken = Waiters(), []
    ticket = waiters.add(1, lambda: woken.append(1))
    ticket.cancel()
    ticket.cancel()
    waiters.on_reached(10)
    assert woken == []
    assert len(waiters) == 0


def test_tickets_that_are_cancelled_again_and_again_do_not_pile_up():
    waiters = Waiters()
    for _ in range(10_000):  # a consumer that polls an idle partition for weeks
        waiters.add(1, lambda: None).cancel()
    assert len(waiters._heap) < 100


def test_all_are_woken_when_leadership_goes():
    waiters, woken = Waiters(), []
    waiters.add(5, lambda: woken.append(5))
    waiters.add(7, lambda: woken.append(7)).cancel()
    waiters.wake_all()
    assert woken == [5]
    assert len(waiters) == 0
