"""The budget: grants never exceed the limit, and refusals say when and why."""

import gc
from threading import Thread

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from service.delivery.budget import GRANT_KINDS, Budget, Grant, GrantKind
from service.errors import Overloaded, RequestTooLarge
from service.lru import ByteBoundedLRU
from service.settings import MIB

LIMIT = 64 * MIB
FREE = LIMIT - 16 * MIB
LARGEST = FREE - LIMIT // 16


def grants_cached_by(budget: Budget, *sizes_bytes: int) -> ByteBoundedLRU[int, Grant]:
    """Return a cache of grants of these sizes, which the budget shrinks."""
    cache: ByteBoundedLRU[int, Grant] = ByteBoundedLRU(budget.most_cache_bytes)

    def shrink(by_bytes: int) -> None:
        for grant in cache.shrink(by_bytes):
            grant.move("results")

    budget.shrink_cache = shrink
    for key, size_bytes in enumerate(sizes_bytes):
        cache.put(key, budget.grant("cache", size_bytes), size_bytes)
    return cache


def test_grant_is_counted_for_its_kind_until_its_release() -> None:
    budget = Budget(LIMIT)
    grant = budget.grant("bodies", 5)
    grant.resize(8)
    other = budget.grant("streams", 100)
    assert budget.granted() == dict.fromkeys(GRANT_KINDS, 0) | {"bodies": 8, "streams": 100}
    grant.move("results")
    assert (budget.granted()["bodies"], budget.granted()["results"]) == (0, 8)
    grant.resize(3)
    other.release()

    assert (budget.granted_bytes, grant.size_bytes) == (3, 3)
    grant.release()
    grant.release()
    assert (budget.granted_bytes, grant.size_bytes) == (0, 0)


def test_grant_to_which_nothing_refers_is_released() -> None:
    budget = Budget(LIMIT)
    grants = [budget.grant("results", 1000)]
    cycle: list[object] = [budget.grant("results", 500)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert budget.granted_bytes == 1000

    grants.clear()
    assert budget.granted_bytes == 0


def test_grant_may_be_released_by_several_threads() -> None:
    budget = Budget(LIMIT)
    grants = [budget.grant("results", 1) for _ in range(10_000)]

    def release() -> None:
        for grant in grants:
            grant.release()

    threads = [Thread(target=release) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(1000):
        budget.grant("bodies", 7).release()
    for thread in threads:
        thread.join()

    assert budget.granted_bytes == 0


def test_grant_that_does_not_fit_now_is_refused_and_fits_after_a_release() -> None:
    budget = Budget(LIMIT, memory_bytes=12345)
    held = budget.grant("bodies", LARGEST)

    with pytest.raises(Overloaded, match=r"POSREF_MEMORY_BYTES=12345\)"):
        budget.grant("results", FREE - LARGEST + 1)
    assert (budget.refusals.counts["memory"], budget.granted_bytes) == (1, LARGEST)
    held.release()
    assert budget.grant("results", FREE - LARGEST + 1).size_bytes == budget.granted_bytes


def test_refused_resize_leaves_the_grant_as_it_was() -> None:
    budget = Budget(LIMIT)
    held, grown = budget.grant("bodies", LARGEST), budget.grant("results", 10)

    with pytest.raises(Overloaded):
        grown.resize(FREE - LARGEST + 1)
    with pytest.raises(RequestTooLarge):
        grown.resize(LARGEST + 1)
    assert (grown.size_bytes, budget.granted_bytes) == (10, held.size_bytes + 10)
    grown.resize(FREE - LARGEST)
    assert budget.granted_bytes == FREE


@pytest.mark.parametrize("kind", GRANT_KINDS)
def test_grant_that_never_fits_is_too_large(kind: GrantKind) -> None:
    budget = Budget(LIMIT, memory_bytes=12345)

    with pytest.raises(RequestTooLarge, match=rf"at most {LARGEST} .*POSREF_MEMORY_BYTES=12345\)"):
        budget.grant(kind, LARGEST + 1, from_reserve=True)
    assert budget.grant(kind, LARGEST).size_bytes == LARGEST


def test_retry_after_is_the_time_for_which_grants_of_the_kind_are_held() -> None:
    budget = Budget(LIMIT)
    # Of several, the newest has an eighth of the weight.
    durations = [("bodies", 20.0), ("results", 0.8), ("results", 20.0), ("children", 1e6)]
    for kind, held_seconds in durations:
        grant = budget.grant(kind, 1)  # type: ignore[arg-type]
        grant.since -= held_seconds
        grant.release()
    cached = budget.grant("cache", 1)
    cached.since -= 1e6
    cached.move("results")
    cached.release()
    # What is empty is held by nobody.
    used_again = budget.grant("streams", 0)
    used_again.since -= 1e6
    used_again.resize(1)
    used_again.release()

    waits = {}
    held = budget.grant("connections", LARGEST)
    for kind in ("bodies", "results", "children", "streams"):
        with pytest.raises(Overloaded) as refused:
            budget.grant(kind, LARGEST)  # type: ignore[arg-type]
        waits[kind] = refused.value.retry_seconds
    held.release()
    assert waits == {"bodies": 21, "results": 3, "children": 60, "streams": 1}


def test_reserve_is_only_for_small_grants_that_may_use_it() -> None:
    budget = Budget(LIMIT)
    held = [budget.grant("bodies", LARGEST), budget.grant("streams", FREE - LARGEST)]

    with pytest.raises(Overloaded):
        budget.grant("results", 1)
    with pytest.raises(Overloaded):
        budget.grant("results", MIB + 1, from_reserve=True)
    held += [budget.grant("results", MIB, from_reserve=True) for _ in range(16)]
    assert budget.granted_bytes == LIMIT == sum(grant.size_bytes for grant in held)
    with pytest.raises(Overloaded):
        budget.grant("results", 1, from_reserve=True)


def test_cache_is_shrunk_before_a_grant_is_refused() -> None:
    budget = Budget(LIMIT)
    cache = grants_cached_by(budget, *[MIB] * 32)
    assert budget.granted()["cache"] == budget.most_cache_bytes

    held = [budget.grant("results", FREE - 32 * MIB + 1)]
    assert (len(cache), cache.get(0), budget.granted()["cache"]) == (31, None, 31 * MIB)
    held.append(budget.grant("results", LARGEST - held[0].size_bytes))
    assert budget.granted()["cache"] == cache.size_bytes == budget.least_cache_bytes
    with pytest.raises(Overloaded):
        budget.grant("results", 1)
    assert cache.size_bytes == budget.least_cache_bytes


def test_evicted_value_in_use_stays_granted() -> None:
    budget = Budget(LIMIT)
    cache = grants_cached_by(budget, 20 * MIB)
    in_use = cache.get(0)
    assert in_use is not None

    with pytest.raises(Overloaded):
        budget.grant("bodies", FREE - 20 * MIB + 1)
    assert (len(cache), budget.granted_bytes) == (0, 20 * MIB)
    del in_use
    assert budget.grant("bodies", LARGEST).size_bytes == budget.granted_bytes


def test_bodies_have_a_limit_of_their_own_unless_one_is_alone() -> None:
    budget = Budget(LIMIT, max_held_body_bytes=100)
    alone = budget.grant("bodies", 90)
    alone.resize(120)
    result = budget.grant("results", 1000)
    assert budget.granted_bytes == alone.size_bytes + result.size_bytes == 1120
    alone.resize(60)
    other = budget.grant("bodies", 40)

    with pytest.raises(Overloaded, match=r"take up 100 bytes already \(POSREF_MAX_HELD_BODY_B"):
        other.resize(41)
    assert budget.refusals.counts["bodies"] == 1
    assert budget.granted()["bodies"] == 100


def test_budget_is_tight_while_little_is_left_beside_the_smallest_cache() -> None:
    budget = Budget(LIMIT)
    cache = grants_cached_by(budget, *[MIB] * 32)
    seen = [budget.is_tight]
    held = budget.grant("bodies", LARGEST - LIMIT // 8)
    seen.append(budget.is_tight)
    held.resize(held.size_bytes + 1)
    seen.append(budget.is_tight)
    held.release()
    seen.append(budget.is_tight)

    assert seen == [False, False, True, False]
    assert cache.evictions


def test_many_grants_of_a_kind_leave_room_for_the_others() -> None:
    budget = Budget(LIMIT)
    streams = [budget.grant("streams", LIMIT // 10) for _ in range(3)]

    with pytest.raises(Overloaded):
        streams[0].resize(LIMIT // 5)

    budget.grant("children", LIMIT * 3 // 10)
    budget.grant("bodies", LIMIT // 10)


def test_single_grant_may_take_the_shares_of_other_kinds() -> None:
    budget = Budget(LIMIT)
    body = budget.grant("bodies", MIB)

    body.resize(LIMIT * 65 // 100)

    with pytest.raises(Overloaded):
        budget.grant("bodies", MIB)


def test_fall_of_the_grants_is_noted_once() -> None:
    budget = Budget(LIMIT)
    held, fallen = budget.grant("results", 5 * MIB), budget.grant("results", 32 * MIB)
    assert not budget.take_fall(32 * MIB)
    fallen.resize(1)
    assert not budget.take_fall(32 * MIB)
    fallen.release()

    assert budget.take_fall(32 * MIB)
    assert not budget.take_fall(MIB)
    held.release()
    assert not budget.take_fall(32 * MIB)
    assert budget.take_fall(32 * MIB)


SIZES = st.integers(0, LARGEST + MIB) | st.integers(0, 2 * MIB)
NUMBERS = st.integers(0, 99)
USES = st.sampled_from([kind for kind in GRANT_KINDS if kind != "cache"])


class GrantsOfOneBudget(RuleBasedStateMachine):
    """Random grants, releases and cached values of one budget.

    Hypothesis would keep what a bundle holds, so the grants have numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(LIMIT)
        self.cache = grants_cached_by(self.budget)
        self.held: list[Grant] = []

    @rule(kind=USES, size_bytes=SIZES, from_reserve=st.booleans())
    def grant(self, kind: GrantKind, size_bytes: int, *, from_reserve: bool) -> None:
        is_small = from_reserve and size_bytes <= MIB
        try:
            grant = self.budget.grant(kind, size_bytes, from_reserve=from_reserve)
        except RequestTooLarge:
            assert size_bytes > LARGEST
        except Overloaded:
            left_bytes = 4 * LIMIT // 10 if kind in {"children", "bodies", "streams"} else 0
            most_bytes = LIMIT if is_small else FREE - left_bytes
            assert self.budget.granted_bytes + size_bytes > most_bytes
            assert self.budget.granted()["cache"] <= self.budget.least_cache_bytes
        else:
            assert is_small or not size_bytes or self.budget.granted_bytes <= FREE
            self.held.append(grant)

    @precondition(lambda self: self.held)
    @rule(number=NUMBERS, size_bytes=SIZES)
    def resize(self, number: int, size_bytes: int) -> None:
        grant = self.held[number % len(self.held)]
        before_bytes = grant.size_bytes
        if grant.kind == "cache":
            return
        try:
            grant.resize(size_bytes)
        except (Overloaded, RequestTooLarge):
            assert grant.size_bytes == before_bytes < size_bytes
        else:
            assert grant.size_bytes == size_bytes

    @precondition(lambda self: self.held)
    @rule(number=NUMBERS)
    def release(self, number: int) -> None:
        grant = self.held.pop(number % len(self.held))
        if grant.kind != "cache":
            grant.release()

    @precondition(lambda self: self.held)
    @rule(number=NUMBERS)
    def forget(self, number: int) -> None:
        self.held.pop(number % len(self.held))

    @precondition(lambda self: self.held)
    @rule(number=NUMBERS, is_in_use=st.booleans())
    def put(self, number: int, *, is_in_use: bool) -> None:
        """Cache a grant, or cache it again; what is evicted is granted while it is in use."""
        grant = self.held[number % len(self.held)]
        if not is_in_use:
            self.held.remove(grant)
        if grant.size_bytes <= self.cache.capacity_bytes:
            evicted = self.cache.put(id(grant), grant, grant.size_bytes)
            for other in evicted:
                other.move("results")
            grant.move("cache")

    @invariant()
    def sum_is_within_the_limit(self) -> None:
        granted = self.budget.granted()
        assert sum(granted.values()) == self.budget.granted_bytes <= LIMIT
        assert granted["cache"] <= self.budget.most_cache_bytes
        assert min(granted.values()) >= 0

    @invariant()
    def sum_is_that_of_all_grants_in_use(self) -> None:
        cached = [grant for grant, _ in self.cache._entries.values()]
        in_use = {id(grant): grant.size_bytes for grant in [*cached, *self.held]}
        assert self.budget.granted_bytes == sum(in_use.values())


def test_sum_of_grants_never_exceeds_the_limit() -> None:
    run_state_machine_as_test(GrantsOfOneBudget)
