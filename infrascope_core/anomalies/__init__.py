"""What is abnormal, and why: features, baselines, detectors, calibration, alarms and attribution."""
