"""Biases and buckets of the honest engine."""

import math

import numpy as np

from tests.conformance.engines.formulas import Array, Formulas, Given


class BiasFormulas(Formulas):
    """Biases of ALiBi and KERPLE, and buckets of T5 and DeBERTa."""

    def distances(self, given: Given) -> Array:
        """Return key − query, (queries, keys)."""
        return self.keys(given)[None] - self.queries(given)[:, None]

    def queries(self, given: Given) -> Array:
        """Return the positions of queries."""
        if "query_positions" in given:
            return np.array(given["query_positions"])
        return np.arange(given["query_len"]) + given.get("query_start", 0)

    def keys(self, given: Given) -> Array:
        """Return the positions of keys."""
        if "key_positions" in given:
            return np.array(given["key_positions"])
        return np.arange(given.get("key_len", given.get("query_len")))

    def slopes(self, heads: int, most: float) -> Array:
        """Return the slopes of ALiBi's own code, whose exponents end at most."""
        power = 2 ** int(math.log2(heads))
        found = [2.0 ** (-most * (head + 1) / power) for head in range(power)]
        found += [2.0 ** (-most / 2 * (2 * head + 1) / power) for head in range(heads - power)]
        return self.reals(found)

    def alibi(self, given: Given) -> Array:
        """Return ALiBi's bias in the form of a library."""
        slopes = self.alibi_slopes(given)[:, None, None]
        if "attention_mask" in given:
            mask = self.mask_of(given)
            places = (self.counted(mask) - 1) * mask
            return slopes * places[:, None, None].astype(self.real)
        match given.get("convention", "original"):
            case "bloom":
                distances = self.keys(given)[None]
            case "mpt":
                distances = self.keys(given)[None] - given["key_len"] + 1
            case "x-transformers":
                distances = -np.abs(self.distances(given))
            case _:
                distances = self.distances(given)
        return slopes * distances.astype(self.real)

    def kerple(self, given: Given) -> Array:
        """Return KERPLE's bias; if it is causal, keys after the query have 0."""
        distances = -self.distances(given).astype(self.real)
        distances = np.maximum(distances, 0) if given.get("causal", True) else np.abs(distances)
        ones = [1.0] * given.get("num_heads", 1)
        a, p = (self.reals(given.get(name, ones)) for name in ("a", "p"))
        if given.get("clamp"):
            a, p = np.maximum(a, self.real(0.01)), np.maximum(p, self.real(0.01))
        a, p = a[:, None, None], p[:, None, None]
        match given["convention"]:
            case "power":
                return -a * distances**p
            case "nemo":
                slopes = self.reals(given["b"]) if "b" in given else self.alibi_slopes(given)
                return -slopes[:, None, None] * self.logarithm(a * distances**p)
        return -p * self.logarithm(a * distances)

    def logarithm(self, grown: Array) -> Array:
        """Return ln(1 + x)."""
        return np.log1p(grown)

    # Buckets: logarithms of whole numbers are compared as powers, so none is rounded.

    def alibi_slopes(self, given: Given) -> Array:
        """Return the slopes of ALiBi alone."""
        return self.slopes(given["num_heads"], given.get("alibi_bias_max", 8.0))

    def t5_bias(self, given: Given) -> Array:
        """Return T5's biases from its learned table, (heads, queries, keys)."""
        weight = np.array(given["weight"])
        return np.moveaxis(weight[self.t5(given, len(weight))], -1, 0)

    def t5(self, given: Given, count: int | None = None) -> Array:
        """Return T5's buckets."""
        distances = self.t5_distances(given)
        buckets = count or given.get("num_buckets", 32)
        offset = np.zeros_like(distances)
        if self.is_bidirectional(given):
            buckets //= 2
            offset = (distances > 0) * buckets
            distances = np.abs(distances)
        else:
            distances = np.maximum(-distances, 0)
        most = given.get("max_distance", 128)
        found = [self.t5_bucket(int(each), buckets, most) for each in distances.ravel()]
        return offset + np.reshape(found, distances.shape)

    def t5_distances(self, given: Given) -> Array:
        """Return key − query."""
        return self.distances(given)

    def is_bidirectional(self, given: Given) -> bool:
        """Whether keys after the query have buckets of their own."""
        return bool(given.get("bidirectional", True))

    def t5_bucket(self, distance: int, buckets: int, most: int) -> int:
        """Return the bucket of a distance: exact ones first, then logarithmic ones."""
        exact = buckets // 2
        if distance < exact:
            return distance
        wide = buckets - exact
        steps = range(1, wide)
        reached = (distance**wide * exact**step >= most**step * exact**wide for step in steps)
        return exact + int(sum(reached))

    def deberta(self, given: Given) -> Array:
        """Return DeBERTa-v2's buckets."""
        distances = self.deberta_distances(given)
        size, most = given["bucket_size"], given["max_position"]
        if size < 0 or most < 0:
            return distances
        found = [self.deberta_bucket(abs(int(each)), size // 2, most) for each in distances.flat]
        return np.sign(distances) * np.reshape(found, distances.shape)

    def deberta_distances(self, given: Given) -> Array:
        """Return query − key."""
        return -self.distances(given)

    def deberta_bucket(self, distance: int, middle: int, most: int) -> int:
        """Return the bucket of a distance: the logarithm is rounded up."""
        if distance <= middle:
            return distance
        top, step = middle - 1, 0
        while distance**top * middle**step > (most - 1) ** step * middle**top:
            step += 1
        return int(middle + step)
