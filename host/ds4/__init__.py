"""DwarfStar (ds4): a local inference engine for large open-weight models."""

__version__ = "0.1.0"
