"""The settings of the stage."""

from __future__ import annotations

from pydantic import Field

from infrascope_core.section import Section


class ReaderSettings(Section):
    """Reading of run files."""

    min_fields_for_tabs: int = Field(5, ge=2)
    """Fewest tab-separated fields of a header; with fewer, commas are tried (loader of the InfraScope notebook)."""
    max_bytes: int = Field(2**30, ge=1)
    """Largest unpacked run file, in bytes; the largest of the public data set has about 0.2 GB (docs/format.md)."""
    max_columns: int = Field(20_000, ge=2)
    """Most columns of a run file; a two-host file of the public data set has 1,582 (docs/format.md)."""
    max_values: int = Field(2**27, ge=1)
    """Most values of a run file, rows times columns, of 8 bytes each in memory; the largest two-host file of the public
    data set has 0.05 billion (docs/format.md)."""
