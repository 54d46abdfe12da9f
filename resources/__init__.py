"""What the assets stand on: pure modules that know nothing of Dagster, and one thin `defs.py`."""
