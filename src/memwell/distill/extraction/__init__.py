"""Statements out of turns, by rules alone."""
