"""One command that measures posref beside its peers, in one run on one machine."""
