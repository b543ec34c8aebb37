"""The review of goldens: a local page on which a person accepts or rejects what tests found."""
