"""A demand of URLs with Zipf-distributed popularity."""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.scaling.ring import Numbers

Shares: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Catalogue:
    """URLs by popularity: Zipf's law.

    Attributes:
        urls: number of URLs.
        exponent: the n-th URL is requested in proportion to 1 ÷ n^exponent.
        body_bytes: the sizes of bodies.
        size_shares: the share of URLs with each size, independent of popularity.
        seed: random seed.
        target: the URL, with ``{}`` for its number.
    """

    urls: int
    exponent: float
    body_bytes: tuple[int, ...]
    size_shares: tuple[float, ...]
    seed: int = 1
    target: str = "/{}"

    @cached_property
    def shares(self) -> Shares:
        """The share of requests of each URL, most popular first."""
        weights = np.arange(1, self.urls + 1, dtype=np.float64) ** -self.exponent
        found: Shares = weights / weights.sum()
        return found

    @cached_property
    def sizes(self) -> Numbers:
        """The index in ``body_bytes`` of each URL's size."""
        random = np.random.default_rng((self.seed, 1))
        found: Numbers = random.choice(len(self.body_bytes), self.urls, p=self.size_shares)
        return found

    @cached_property
    def url_bytes(self) -> Numbers:
        """The size of each URL's body."""
        found: Numbers = np.array(self.body_bytes, dtype=np.int64)[self.sizes]
        return found

    def spelled(self) -> list[str]:
        """Return every URL."""
        return [self.target.replace("{}", str(number)) for number in range(self.urls)]

    def requests(self, number: int, stream: int = 0) -> Numbers:
        """Draw URLs independently; each stream has its own random numbers."""
        random = np.random.default_rng((self.seed, 2, stream))
        drawn = np.searchsorted(np.cumsum(self.shares), random.random(number))
        found: Numbers = np.minimum(drawn, self.urls - 1)
        return found


def asked_before(catalogue: Catalogue, owned: Numbers, stream: int, shares: Shares) -> Numbers:
    """Order URLs by their last request, oldest first, in the steady state.

    Args:
        catalogue: all URLs.
        owned: indices of the URLs that the cache receives.
        stream: index of the cache; each has its own random stream.
        shares: relative request rate of each URL of the catalogue.
    """
    random = np.random.default_rng((catalogue.seed, 3, stream))
    # Times since the last request are exponential for independent requests.
    ages = random.standard_exponential(len(owned)) / shares[owned]
    found: Numbers = owned[np.argsort(-ages)]
    return found
