"""A model spread over several machines: what they say to each other."""
