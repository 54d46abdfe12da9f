"""One delivery day, and the programs that take it in: ours and three rivals, each doing the same checked work."""
