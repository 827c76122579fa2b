"""Cases of /diagnose with known answers: tables of engines, right and with mistakes."""
