"""Farshore and MirrorMaker 2 side by side, between the same two real clusters on this machine.

    cases      what is measured
    scene      the two clusters of a case
    load       what the source holds, and how it comes into sight
    mirrors    the two mirrors as processes, with the same configuration
    trees      processor time and memory of processes with all their descendants
    disk       what lies in the target's log
    measure    one measurement of throughput, `latency` one of latency; `rounds` repeats them with both mirrors
    crowd      both mirrors with thousands of partitions, `crowd_load` what is in these
    results    what came out; `report` gives it as JSON and Markdown, with `scale_report` and `tables`, `plot` as SVG

A mirror is started on a topic to warm up with. The topic that is measured is full by then, but the mirror may not
describe it; an ACL goes, and it is there, all at once, for a mirror that runs as it always does. Stopping the mirror's
processes while the data are written would do the same only on the face of it: leases and group memberships lapse
meanwhile. And so both mirrors read the very same bytes.
"""
