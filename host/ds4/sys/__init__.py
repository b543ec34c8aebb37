"""The only room that touches native code: the bridge, library lookup and small operating-system adapters."""
