"""What an array that somebody made is: measured, named, and where it goes wrong; no HTTP here."""
