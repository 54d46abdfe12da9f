"""The four errors that leave an engine, named for who must act."""

from __future__ import annotations


class SlicewiseError(Exception):
    """Base of ours; its message names the thing, the rule, the value found, why it matters and what to do."""


class ConfigError(SlicewiseError):
    """Whoever wrote the YAML or set the option must act."""


class DataError(SlicewiseError):
    """The upstream data is wrong, or a day that is required is not there."""


class TransientError(SlicewiseError):
    """Nobody must act: try again (an input that is still being built, a lost race, a busy service)."""


class CorruptError(SlicewiseError):
    """A file of ours is damaged: rebuild it."""
