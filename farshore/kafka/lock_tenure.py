"""For how long a flow is ours, by what the coordinator of the group has answered. Pure.

When may another member have been given the board?

- When the coordinator has taken us out for our silence: the session timeout after it has last heard of us, at the
  earliest. It has heard of us when it answers a heartbeat, whether with success or with REBALANCE_IN_PROGRESS.
- When a rebalance has been completed without us: the rebalance timeout after it began, at the earliest, for the group
  goes by the longest of its members' timeouts and ours is among them. A heartbeat that is answered with success says
  that no rebalance was waiting for us then. One that is answered with REBALANCE_IN_PROGRESS does not say since when.
- When we have let it go. Until then we name it as ours in every join, and the leader leaves it with us.

So each answer proves something for a while, counted from the moment when its request was sent. Only heartbeats count: a
coordinator whose group is stable answers a JoinGroup or SyncGroup that comes again with what it knows, and our session
goes on from what it had heard before. An operator who removes members of the group by hand is not accounted for; leases
on the board are what nothing can pass by.

The rebalance timeout is twice the session timeout. A standby that hangs holds up a rebalance until its own session is
over, which is one session timeout after its last heartbeat, so after at most 1.25 of them; our heartbeats go on
meanwhile, and what was proven before lasts. With a shorter rebalance timeout the flow would be lost by every standby
that hangs, with a longer one a standby that lives and does not join would hold up the others for longer.
"""

from __future__ import annotations

import math

_FOR_CERTAIN = 0.95
"""Of a time that the coordinator measures: its clock and ours do not go at quite the same rate."""


class Tenure:
    """Seconds are those of one clock of ours."""

    def __init__(self, session_timeout: float, rebalance_timeout: float) -> None:
        self._session = session_timeout * _FOR_CERTAIN
        self._rebalance = rebalance_timeout * _FOR_CERTAIN
        self._heard = self._settled = -math.inf

    @property
    def until(self) -> float:
        """What we were given is ours until then, if we do not let it go before."""
        return min(self._heard + self._session, self._settled + self._rebalance)

    def settled(self, sent: float) -> None:
        """A heartbeat that was sent then was answered with success."""
        self._settled = max(self._settled, sent)
        self.heard(sent)

    def heard(self, sent: float) -> None:
        """A heartbeat that was sent then was answered with REBALANCE_IN_PROGRESS."""
        self._heard = max(self._heard, sent)

    def end(self) -> None:
        """The coordinator does not know us any more."""
        self._heard = self._settled = -math.inf
