"""Bounds of parameters: within them every result stays exact and finite."""

MAX_CHANNELS = 65_536
"""Channels of an encoding or of a head; heads; numbers in a list."""

MAX_AXES_CHANNELS = 4096
"""Channels of a table with several axes: each row costs more than one of a sequence."""

MAX_GROWN_CHANNELS = 1024
"""Channels whose sines grow with the position: each needs its own power for each digit."""

MAX_MIXED_CHANNELS = 512
"""Channels of the one rule whose frequencies are no series: each costs two exponentials."""

MAX_BASE = 1e300
"""The base of a geometric series of frequencies."""

MAX_SCALED_BASE = 1e250
"""The base of scaled frequencies: times every factor they stay in the range of phases."""

MIN_FACTOR, MAX_FACTOR = 1e-9, 1e9
"""Factors and divisors of frequencies, periods and coordinates."""

MIN_SCALE = 1e-8
"""Divisors of coordinates: the fastest periods and bands stay in the range of phases."""

MAX_MSCALE = 1000.0
"""Terms of an attention factor, which stays in the range of float16."""

MAX_ATTENTION_FACTOR = 10_000.0
"""The factor of cosines and sines, which stay in the range of float16."""

MAX_LENGTH = 2**62
"""Tokens of a sequence or a grid."""

MIN_UNIT = 1e-40
"""The coordinate of one position: times the slowest frequency it is in the range of phases."""
