"""Model files, text, sessions: everything between the native bridge and the programs that people run."""
