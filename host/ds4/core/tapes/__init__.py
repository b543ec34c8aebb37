"""The wire forms of core's components: what their oracles read and write (oracles/<name>/README.md)."""
