"""What a running Farshore tells other programs."""
