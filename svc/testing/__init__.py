"""For tests, ours and a third party's: contracts of the seams, and a gateway of real processes."""
