"""Bounds of parameters: within them every result stays exact and finite."""

MAX_CHANNELS = 65_536
"""Channels of an encoding or of a head; heads; numbers in a list."""


MAX_AXES_CHANNELS = 4096
"""Channels that turn along several axes: each row of them costs more than one of a sequence."""


MAX_GROWN_CHANNELS = 1024
"""Channels whose sines grow with the position: a power of its own for each, and each digit."""


MAX_MIXED_CHANNELS = 512
"""Channels of the one rule whose frequencies are no series: each costs two exponentials."""


MAX_BASE = 1e300
"""The base of a geometric series of frequencies."""


MAX_SCALED_BASE = 1e250
"""The base where frequencies are scaled: times every factor they stay in the range of phases."""


MIN_FACTOR, MAX_FACTOR = 1e-9, 1e9
"""What frequencies, periods or coordinates are multiplied or divided by."""


MIN_SCALE = 1e-8
"""What coordinates are divided by: the fastest of periods and bands stay in the range of phases."""


MAX_MSCALE = 1000.0
"""What an attention factor is made of: it stays in the range of float16."""


MAX_ATTENTION_FACTOR = 10_000.0
"""What cosines and sines are multiplied by: they stay in the range of float16."""


MAX_LENGTH = 2**62
"""Tokens of a sequence or a grid."""


MIN_UNIT = 1e-40
"""The coordinate of one position: times the slowest frequency it stays in the range of phases."""
