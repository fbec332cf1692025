"""What success cost: the part of a report on costs, for people, programs and as pictures."""
