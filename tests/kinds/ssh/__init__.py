"""SSH: the kind's sides, and the gate over memory transports."""
