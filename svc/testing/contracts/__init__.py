"""Contract tests: what every implementation of an interface must do.

Mix a contract into a TestCase and define how your implementation is created.
"""
