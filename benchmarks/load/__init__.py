"""A crowd of clients with mixed wishes: what it gets, how long it waits, what it costs."""
