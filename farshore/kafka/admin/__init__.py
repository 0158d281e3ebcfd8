"""An asynchronous client for administrators, on the connections of `farshore.kafka.raw`."""

from farshore.kafka.admin.client import Admin, Outcomes

__all__ = ["Admin", "Outcomes"]
