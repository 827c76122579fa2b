"""Which table an array is: proposals held to real tables, and the arithmetic that made it."""
