"""One module for each group of endpoints: bodies become GenerationRequests, events become the protocol's messages."""
