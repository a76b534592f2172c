"""What a section of the settings is. The sections themselves stand in the `settings.py` of their stages."""

from __future__ import annotations

import hashlib

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section of the settings: frozen, so that it can be hashed into a fingerprint, and strict about names.

    The text under a field is its description: what it means, with its unit, and where the default comes from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    def digest(self) -> str:
        """Short stable hash of all values, for fingerprints."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]
