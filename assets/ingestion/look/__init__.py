"""A first look at sample files: how they are written, what their columns hold, and a contract that says so."""
