"""What every room agrees on: the dataset's YAML, days, the cut, digests, manifests, errors. Imports none of ours."""
