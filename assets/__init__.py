"""The rooms, in the order in which data flows: ingestion, sharding, preprocessing, training, evaluation."""
