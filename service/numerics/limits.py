"""Bounds of parameters, within which every result is exact and finite."""

MAX_CHANNELS = 65_536
"""The most channels of an encoding or a head, the most heads, and the most numbers in a list."""

MAX_AXES_CHANNELS = 4096
"""The most channels of a table with several axes, whose rows cost more than those of one axis."""

MAX_GROWN_CHANNELS = 1024
"""The most channels with xPos: each needs a power for each digit of a position."""

MAX_MIXED_CHANNELS = 512
"""The most channels with mixed_b: each of its frequencies costs two exponentials."""

MAX_BASE = 1e300
"""The largest base of a geometric series of frequencies."""

MAX_SCALED_BASE = 1e250
"""The largest base of scaled frequencies: times any factor they are in the range of phases."""

MIN_FACTOR, MAX_FACTOR = 1e-9, 1e9
"""The range of factors and divisors of frequencies, periods and coordinates."""

MIN_SCALE = 1e-8
"""The smallest divisor of coordinates: the highest frequencies are in the range of phases."""

MAX_MSCALE = 1000.0
"""The largest mscale of an attention factor, which is then in the range of float16."""

MAX_ATTENTION_FACTOR = 10_000.0
"""The largest factor of cosines and sines, which are then in the range of float16."""

MAX_LENGTH = 2**62
"""The most tokens of a sequence or a grid."""

MIN_UNIT = 1e-40
"""The smallest unit of coordinates: times the lowest frequency it is in the range of phases."""
