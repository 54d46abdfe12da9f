"""The fourth room: a candidate model, trained by one process per device."""
