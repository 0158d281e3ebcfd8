"""The driver of flows: one event loop with what must never wait for anything else, above all leases and plans."""
