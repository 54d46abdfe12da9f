"""Level-triggered automation: pure decisions about what is missing or stale, and their thin wiring."""
