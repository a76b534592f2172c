"""The one exception tree: every message is one sentence that names what is at fault and what was expected."""

from __future__ import annotations

from pathlib import Path


def printable(value: object) -> str:
    """Text without control characters: names and file contents are not to be trusted with a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value))


class InfraScopeError(Exception):
    """Root of all errors that a user can cause and can mend."""


class RunFileError(InfraScopeError):
    """A run file cannot be used as it lies; it is rejected as a whole.

    Attributes
    ----------
    path : Path
        The file at fault.
    fault : str
        What is wrong, where (line, column), and what was expected; without the path, and on one line.
    """

    def __init__(self, path: Path, fault: str) -> None:
        self.path = path
        self.fault = printable(fault)
        super().__init__(f"{path}: {self.fault}")


class SourceError(InfraScopeError):
    """A source cannot be reached, or does not answer as it should; nothing is known of the files in it.

    A run that fails by it is no rejected file: it is read at the next look.
    """


class ChangingFileError(SourceError):
    """A file was written to, or put away, while it was read: neither its old nor its new content is known.

    Attributes
    ----------
    path : Path
        The file.
    fault : str
        What happened, without the path.
    """

    def __init__(self, path: Path, fault: str) -> None:
        self.path = path
        self.fault = fault
        super().__init__(f"{path}: {fault}")


class LabelFileError(RunFileError):
    """A `.faults.csv` beside a run file cannot be used; the run itself is not affected."""


class MetricTypesError(RunFileError):
    """A `.metrics.csv` beside a run file cannot be used; the run is judged as if it were not there."""


class ImportSourceError(InfraScopeError):
    """Telemetry cannot be imported: its source cannot be read, or says nothing about the jobs that were asked for."""


class StorageError(InfraScopeError):
    """A file of a data folder cannot be written.

    Attributes
    ----------
    full : bool
        Nothing else can be written there either: the disk or the quota is used up, or the file system is read-only.
    """

    def __init__(self, message: str, full: bool = False) -> None:
        self.full = full
        super().__init__(message)


class PrunedError(InfraScopeError):
    """What is to be made rests on samples that were dropped to save room."""


class OutdatedError(InfraScopeError):
    """A table of a data folder was written by an earlier version and lacks columns of today's."""


class RecipeError(InfraScopeError):
    """A recipe is unknown or its file breaks the recipe schema."""


class SettingsError(InfraScopeError):
    """A setting is unknown or out of its range."""


class NotFittedError(InfraScopeError):
    """A fitted product (catalogue, thresholds, baseline) that a step needs does not exist yet."""


class CollectError(InfraScopeError):
    """The collector cannot record: bad arguments, nothing to sample, or no room for the file."""


class SimulationError(InfraScopeError):
    """A simulation cannot be made as asked: an unknown fault, an impossible interval, an argument out of its range."""
