"""One module for each group of endpoints: it parses a body into a GenerationRequest and renders events into its protocol."""
