"""The `ds4` command: one-shot prompts, a chat at the terminal, and diagnostics of model files."""
