"""Backups: what a generation consists of, how it is packed and how it is encrypted.

Pure but for the files of a backup itself; what is put in comes from ``compose``.
"""
