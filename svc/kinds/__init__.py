"""What sorts of target there are.  A kind knows its words and its endpoint, and no role."""
