"""The conformance suite: files of test vectors, and the runner that judges an implementation."""
