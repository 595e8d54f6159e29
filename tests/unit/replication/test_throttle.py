from ottla.replication.throttle import Throttle


def test_an_unlimited_one_is_always_open():
    throttle = Throttle()
    throttle.take(1 << 40, 0)
    assert throttle.opens_in_ms(0) == 0


def test_what_is_taken_beyond_the_rate_is_paid_back():
    throttle = Throttle(1000)
    assert throttle.opens_in_ms(0) == 0
    throttle.take(3000, 0)
    assert throttle.opens_in_ms(0) == 2001
    assert throttle.opens_in_ms(1000) == 1001
    assert throttle.opens_in_ms(2001) == 0


def test_over_a_minute_it_is_the_rate():
    throttle, taken = Throttle(1000), 0
    for now_ms in range(0, 60_000, 10):
        if throttle.opens_in_ms(now_ms) == 0:
            throttle.take(700, now_ms)
            taken += 700
    assert 60_000 <= taken <= 62_000
