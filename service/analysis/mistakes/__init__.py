"""Known mistakes: what each does to a table, and the shortest list that explains one."""
