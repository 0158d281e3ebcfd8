"""The same random requests for the model of Kafka and for a real broker, and the comparison of what they answer.

describing   requests by which coordinators tell their state
sides        who is asked: the model, or a real cluster
comparing    answers without what must differ: ids, times, random numbers
script       requests drawn from a seed
running      one script on both sides
membership   the members of a group on both sides
"""
