"""Real servers under real HTTP clients: the long soak, the load of many streams, and the kill at any moment."""
