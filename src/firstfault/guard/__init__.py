"""Keeps measured results honest: who else was there, under what a trial ran, and that only a whole matrix is published. Kills nobody."""
