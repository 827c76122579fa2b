"""The LRU cache."""

import pytest

from service.lru import ByteBoundedLRU, shared, shrink_shared


def test_least_recently_used_value_is_evicted_first() -> None:
    store: ByteBoundedLRU[str, int] = ByteBoundedLRU(30)
    for number, key in enumerate("abc"):
        store.put(key, number, 10)
    store.get("a")

    store.put("d", 3, 10)

    assert [store.get(key) for key in "abcd"] == [0, None, 2, 3]
    assert store.evictions == 1


def test_total_size_stays_within_the_capacity() -> None:
    store: ByteBoundedLRU[int, int] = ByteBoundedLRU(100)

    for key in range(50):
        store.put(key, key, 7 + key % 30)
        assert store.size_bytes <= 100


def test_question_for_a_key_uses_no_value() -> None:
    store: ByteBoundedLRU[str, int] = ByteBoundedLRU(10)
    store.put("a", 1, 5)
    store.put("b", 2, 5)

    assert "a" in store
    assert "c" not in store
    assert store.put("c", 3, 5) == [1]


def test_value_larger_than_the_cache_is_not_stored_and_evicts_nothing() -> None:
    store: ByteBoundedLRU[str, int] = ByteBoundedLRU(10)
    store.put("small", 1, 5)

    store.put("large", 2, 11)

    assert store.get("large") is None
    assert store.get("small") == 1


def test_replaced_value_counts_once() -> None:
    store: ByteBoundedLRU[str, int] = ByteBoundedLRU(10)
    store.put("a", 1, 6)
    store.put("a", 2, 4)

    assert (store.get("a"), store.size_bytes, len(store)) == (2, 4, 1)
    assert store.evictions == 0


def test_values_that_leave_the_cache_are_returned() -> None:
    store: ByteBoundedLRU[str, int] = ByteBoundedLRU(10)

    assert store.put("a", 1, 4) == []
    assert store.put("b", 2, 4) == []
    assert store.put("a", 3, 5) == [1]
    assert store.put("c", 4, 6) == [2, 3]
    assert store.put("c", 5, 11) == [4]
    assert (len(store), store.size_bytes, store.evictions) == (0, 0, 2)


def test_cache_is_shrunk_by_at_least_the_given_bytes() -> None:
    store: ByteBoundedLRU[str, int] = ByteBoundedLRU(100)
    for number, key in enumerate("abc"):
        store.put(key, number, 10)

    assert store.shrink(0) == []
    assert store.shrink(11) == [0, 1]
    assert (store.size_bytes, store.evictions) == (10, 2)
    assert store.shrink(11) == [2]
    assert store.shrink(1) == []


def test_shared_caches_are_shrunk_in_proportion_to_their_capacities(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("service.lru._shared", [])
    small, large = (shared(ByteBoundedLRU[int, int](capacity)) for capacity in (30, 90))
    for key in range(100):
        small.put(key, key, 1)
        large.put(key, key, 1)

    shrink_shared(120)
    assert (small.size_bytes, large.size_bytes) == (30, 90)
    shrink_shared(40)
    assert (small.size_bytes, large.size_bytes) == (10, 30)
    assert small.get(99) == 99
