"""The first room: what was delivered, typed, checked and split by the day on which it happened."""
