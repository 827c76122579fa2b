"""The process: connections and their limits, signals, workers. Nothing of tables."""
