"""The vector files of the suite: one for each family or rule, with its cases."""
