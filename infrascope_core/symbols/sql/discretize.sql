-- Turns window values into levels: at or below `low` is LOW, at or below `high` is MED, above it HIGH.
-- in:  group_windows (run_key, host, window, metric_group, start_ts, value),
--      thresholds (metric_group, low, high): those of the run's platform
-- out: run_key, host, window, metric_group, start_ts, value, level, item; a group without thresholds has no item
SELECT
    run_key,
    host,
    "window",
    metric_group,
    start_ts,
    value,
    CASE WHEN value <= low THEN 'LOW' WHEN value <= high THEN 'MED' ELSE 'HIGH' END AS level,
    metric_group || '_' || level AS item
FROM group_windows
JOIN thresholds USING (metric_group)
WHERE value IS NOT NULL
ORDER BY host, "window", metric_group
