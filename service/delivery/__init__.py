"""How a document becomes an answer: one path for all of them."""
