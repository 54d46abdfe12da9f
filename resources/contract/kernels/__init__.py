"""Compiled loops under the digests: numba is imported here and, through here, only when rows are hashed."""
