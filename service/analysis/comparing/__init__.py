"""Two arrays beside each other: where they differ, and by how much."""
