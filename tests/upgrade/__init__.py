"""Stores of earlier levels, with rows in every table, brought to the last one."""
