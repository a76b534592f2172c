-- One value per metric group and window of $samples consecutive samples, counted from the first row.
-- in:  curated (run_key, host, metric_group, metric, sample, ts, value),
--      groups (metric_group, over_samples, over_metrics): the reducers median, mean, sum or max
-- out: run_key, host, window, metric_group, start_ts, value, samples, metrics; a window without data has no
--      row, and the incomplete last window is dropped
WITH placed AS (
    SELECT
        run_key,
        host,
        metric_group,
        metric,
        sample // $samples AS "window",
        ts,
        CASE WHEN isfinite(value) THEN value END AS value
    FROM curated
    WHERE sample < ((SELECT max(sample) + 1 FROM curated) // $samples) * $samples
),
per_metric AS (
    SELECT
        run_key,
        host,
        metric_group,
        metric,
        "window",
        min(ts) AS start_ts,
        CASE any_value(over_samples)
            WHEN 'median' THEN median(value) FILTER (WHERE over_samples = 'median')
            WHEN 'mean' THEN avg(value)
            WHEN 'sum' THEN sum(value)
            WHEN 'max' THEN max(value)
        END AS value,
        count(value) AS samples
    FROM placed
    JOIN groups USING (metric_group)
    GROUP BY ALL
)
SELECT
    run_key,
    host,
    "window",
    metric_group,
    min(start_ts) AS start_ts,
    CASE any_value(over_metrics)
        WHEN 'median' THEN median(value) FILTER (WHERE over_metrics = 'median')
        WHEN 'mean' THEN avg(value)
        WHEN 'sum' THEN sum(value)
        WHEN 'max' THEN max(value)
    END AS value,
    sum(samples)::BIGINT AS samples,
    count(value) AS metrics
FROM per_metric
JOIN groups USING (metric_group)
GROUP BY ALL
HAVING count(value) > 0
ORDER BY host, "window", metric_group
