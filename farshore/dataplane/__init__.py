"""The data plane: record batches copied from source partitions to target partitions."""
