"""`ds4 models`: the model files of this machine - listed, identified, verified, fetched and removed."""
