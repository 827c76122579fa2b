"""What costly requests do to others: latency, order, memory, and work for those who left."""
