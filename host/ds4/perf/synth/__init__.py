"""`ds4-synth`: model files made, not downloaded. Random weights of any shape, and conversion of a checkpoint."""
