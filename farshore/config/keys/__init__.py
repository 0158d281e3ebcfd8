"""The one table of keys."""
