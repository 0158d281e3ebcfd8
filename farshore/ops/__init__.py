"""What operators do with clusters and flows: each module composes the rooms below and holds no loop."""
