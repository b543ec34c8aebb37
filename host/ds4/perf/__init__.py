"""Measuring tools: `ds4-bench`."""
