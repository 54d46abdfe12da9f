"""The demo: an invented shop's impressions whose truth is planted, so that the best possible model is known."""
