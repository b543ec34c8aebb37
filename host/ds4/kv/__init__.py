"""Sessions kept on disk: the record that holds one, and what may be appended to it."""
