"""Constrained decoding: which answers a grammar allows, and which tokens may come next."""
