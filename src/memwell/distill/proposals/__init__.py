"""Statements out of turns, as a model proposes them."""
