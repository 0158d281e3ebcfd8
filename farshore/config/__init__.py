"""Configuration: every format MirrorMaker 2 users have, to one typed model.

    file ─► documents ─► properties ─► dedicated ─┐
                    ├──► connect ─────────────────┼─► FlowConfig ─► settle ─► Settings
                    └──► yamltext ─► strimzi ─────┘   (entries)    (typed, rules, security)

Reading never raises for what a user wrote: it collects findings, so that one run reports everything.
"""

from farshore.config.load import Reading, load, read
from farshore.config.settings import FlowSettings, Settings

__all__ = ["FlowSettings", "Reading", "Settings", "load", "read"]
