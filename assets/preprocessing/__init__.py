"""The third room: rollups, features and labels, exact to the event."""
