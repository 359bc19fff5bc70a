"""The reverse tunnel: its life at both ends, without deciding who may use it."""
