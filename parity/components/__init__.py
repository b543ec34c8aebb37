"""One file for each component; parity.registry finds them."""
