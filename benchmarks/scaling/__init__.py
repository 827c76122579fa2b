"""What one core serves, what an edge and replicas add, and what follows from that for many."""
