"""The training process: the only place where torch is imported at module level."""
