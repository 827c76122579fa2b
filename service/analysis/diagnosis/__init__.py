"""The mistakes that turn one table, or one rotation, into another."""
