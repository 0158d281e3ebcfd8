"""The small topics that go with the copying: positions, syncs, ledger and board, written, read whole, and followed."""
