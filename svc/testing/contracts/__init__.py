"""What every implementation of a seam keeps.

Mix a contract into a TestCase and say how your implementation is made.
"""
