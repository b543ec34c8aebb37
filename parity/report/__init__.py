"""What the gate prints and writes: a table, JSON, JUnit XML and an HTML page."""
