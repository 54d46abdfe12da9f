"""Starts training processes, and sees to it that none outlives its starter."""
