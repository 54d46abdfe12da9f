"""The last room: candidate, baselines and incumbent on the same rows, and the verdict."""
