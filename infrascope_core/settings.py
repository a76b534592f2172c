"""Every tunable: its default, its unit, and where the default comes from.

Settings are frozen pydantic models, so they can be hashed into the fingerprint of a product and carried by
a Dagster resource. Domain knowledge (metric groups, subsystems, claims) is not here but in data files.
"""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import ValidationError

from infrascope_core.anomalies.settings import DetectorSettings, FeatureSettings
from infrascope_core.comparing.settings import ComparisonSettings
from infrascope_core.errors import SettingsError
from infrascope_core.evaluation.settings import EvaluationSettings
from infrascope_core.hosts.settings import HostSettings
from infrascope_core.pages.settings import PageSettings
from infrascope_core.patterns.settings import IdentitySettings, MiningSettings, PhaseSettings
from infrascope_core.quality.settings import ClassSettings, PruningCurveSettings, ReanalysisSettings, SelectionSettings
from infrascope_core.reports.settings import EpisodeSettings, ReportSettings
from infrascope_core.run_files.settings import ReaderSettings
from infrascope_core.section import Section, fault_in_words, yaml_fault_in_words
from infrascope_core.store.settings import RetentionSettings
from infrascope_core.studies.settings import AgreementSettings, ChoiceSettings, LatencySettings, SimilaritySettings
from infrascope_core.symbols.settings import WindowSettings

_GONE = (("mining", "min_confidence"),)
"""Settings that earlier versions had, as section and name: folders that these filled still hold them."""


class Settings(Section):
    """All settings of a pipeline run."""

    recipe: str = "default"
    """Metric groups and how they become levels: `default`, `infrascope`, or the path of a YAML file."""
    reader: ReaderSettings = ReaderSettings()
    retention: RetentionSettings = RetentionSettings()
    windows: WindowSettings = WindowSettings()
    features: FeatureSettings = FeatureSettings()
    reanalysis: ReanalysisSettings = ReanalysisSettings()
    classes: ClassSettings = ClassSettings()
    selection: SelectionSettings = SelectionSettings()
    pruning_curve: PruningCurveSettings = PruningCurveSettings()
    mining: MiningSettings = MiningSettings()
    identity: IdentitySettings = IdentitySettings()
    phases: PhaseSettings = PhaseSettings()
    detectors: DetectorSettings = DetectorSettings()
    episodes: EpisodeSettings = EpisodeSettings()
    reports: ReportSettings = ReportSettings()
    pages: PageSettings = PageSettings()
    comparisons: ComparisonSettings = ComparisonSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    hosts: HostSettings = HostSettings()
    agreement: AgreementSettings = AgreementSettings()
    similarity: SimilaritySettings = SimilaritySettings()
    latency: LatencySettings = LatencySettings()
    mining_choices: ChoiceSettings = ChoiceSettings()


def load_settings(path: str | Path | None, stored: bool = False) -> Settings:
    """Settings from a YAML file that names only what differs from the defaults; None gives the defaults.

    Parameters
    ----------
    path : str, Path or None
        The file.
    stored : bool
        The file was written by this or an earlier version, not by a person: settings that are gone are ignored.

    Raises
    ------
    SettingsError
        The file cannot be read, names an unknown setting, or holds a value out of its range.
    """
    if path is None:
        return Settings()
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        for section, name in _GONE if stored and isinstance(content, dict) else ():
            if isinstance(content.get(section), dict):
                content[section].pop(name, None)
        return Settings.model_validate({} if content is None else content)
    except ValidationError as error:
        raise SettingsError(f"{path}: {fault_in_words(Settings, error)}") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise SettingsError(f"{path}: cannot be read as YAML ({yaml_fault_in_words(error)})") from None
