"""Many machines: which of them runs what, how their runs become one, and what is run first where time may end."""
