"""`@frozen` beside the standard library's `@dataclass(frozen=True, slots=True)`, which it stands for."""

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from typing import Generic, TypeVar

import pytest

from ottla.frozen import frozen

T = TypeVar("T")


class Ours:
    @frozen
    class Point:
        """A place."""

        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list)

        @property
        def sum(self):
            return self.x + self.y

    @frozen
    class Nothing:
        pass


class Theirs:
    @dataclass(frozen=True, slots=True)
    class Point:
        """A place."""

        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list)

        @property
        def sum(self):
            return self.x + self.y

    @dataclass(frozen=True, slots=True)
    class Nothing:
        pass


@frozen
class One:
    x: int


@frozen
class Other:
    x: int


@frozen
class Holder(Generic[T]):
    value: T


both = pytest.mark.parametrize("of", [Ours, Theirs])


@both
def test_arguments_come_by_place_or_by_name_and_have_defaults(of):
    assert of.Point(1).sum == 3
    assert of.Point(y=5, x=1).sum == 6
    assert of.Point(1, 1, ["a"]).tags == ["a"]
    for wrong in ((), (1, 2, [], 4)):
        with pytest.raises(TypeError, match=r"Point.__init__\(\)"):
            of.Point(*wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        of.Point(1, z=3)


@both
def test_a_factory_is_asked_each_time(of):
    first, second = of.Point(1), of.Point(1)
    first.tags.append("a")
    assert second.tags == []


@both
def test_it_does_not_change(of):
    point = of.Point(1)
    with pytest.raises(FrozenInstanceError):
        point.x = 3
    with pytest.raises(FrozenInstanceError):
        del point.x
    assert not hasattr(point, "__dict__")
    assert point == of.Point(1)


@both
def test_it_is_equal_to_another_of_its_class_with_equal_values(of):
    assert of.Point(1) == of.Point(1, 2, [])
    assert of.Point(1) != of.Point(1, 3)
    assert of.Point(1) != of.Point(1, tags=["a"])
    assert of.Point(1) != (1, 2, [])
    assert of.Nothing() == of.Nothing()
    assert len({of.Nothing(), of.Nothing()}) == 1


def test_two_classes_with_the_same_fields_are_not_equal():
    assert One(1) != Other(1)  # type: ignore[comparison-overlap]
    assert One(1) == One(1)


def test_the_hash_goes_by_the_values():
    assert {One(1): "a"}[One(1)] == "a"
    assert hash(One(1)) != hash(One(2))
    with pytest.raises(TypeError, match="unhashable"):
        hash(Ours.Point(1))


@both
def test_it_is_shown_and_taken_apart_as_a_dataclass(of):
    assert repr(of.Point(1)) == f"{of.__name__}.Point(x=1, y=2, tags=[])"
    assert of.Point.__doc__ == "A place."
    assert is_dataclass(of.Point)
    assert [each.name for each in fields(of.Point)] == ["x", "y", "tags"]
    assert replace(of.Point(1), y=7) == of.Point(1, 7)  # type: ignore[call-arg, operator]
    match of.Point(1, 5):  # type: ignore[call-arg, operator]
        case of.Point(x, y):  # type: ignore[misc]
            assert (x, y) == (1, 5)
        case _:
            pytest.fail("not matched")


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_it_is_copied_and_pickled(again):
    assert again(One(1)) == One(1)


def test_it_may_be_generic():
    assert Holder[int](3) == Holder(3)


def test_secrets_are_not_shown():
    from ottla.client.settings import ConsumerSettings, ProducerSettings, Settings
    from ottla.config.jaas import Jaas
    from ottla.config.listeners import ListenerSettings
    from ottla.server.tls import TlsSettings
    from ottla.server.zookeeper.session import Options

    shown = [
        *(
            repr(
                kind(
                    sasl_username="alice",
                    sasl_password="hush",
                    sasl_jaas_config="hush",
                    ssl_key_password="hush",
                )
            )
            for kind in (Settings, ProducerSettings, ConsumerSettings)
        ),
        repr(Jaas("module", {"password": "hush"})),
        repr(ListenerSettings("SSL", "SSL", {"ssl.key.password": "hush"})),
        repr(TlsSettings(keystore_password="hush", keystore_key="hush", keystore_location="/a.pem")),
        repr(Options((("localhost", 1),), credentials=("digest", b"user:hush"))),
    ]
    assert not any("hush" in text for text in shown), shown
    assert "alice" in shown[0] and "/a.pem" in shown[5]
