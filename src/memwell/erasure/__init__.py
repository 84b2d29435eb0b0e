"""Erasure and retention: what is deleted or expired leaves no byte."""
