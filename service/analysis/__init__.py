"""What an array is, and what is wrong with it. Nothing here knows of HTTP."""
