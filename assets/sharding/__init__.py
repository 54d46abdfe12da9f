"""The second room: a day's events, de-duplicated and cut into buckets by user."""
