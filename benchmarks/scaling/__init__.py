"""The throughput of one core, the effect of edge and replicas, and a simulation of many."""
