"""What turns the engine's tokens into text for people: UTF-8 boundaries, stop strings, and the output parsers."""
