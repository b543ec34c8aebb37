"""What an operator needs: keys, TLS, sockets, logs, counters' page, statistics."""
