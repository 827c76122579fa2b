"""What an array is, in which arithmetic it was made, and which mistake is in it."""
