"""How the processor time of an element grows with length, width, distinct positions and readers."""
