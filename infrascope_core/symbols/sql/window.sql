-- One value per metric group and window of $samples consecutive samples, counted from the first row.
-- in:  curated (run_key, host, metric_group, metric, sample, ts, value) of one run,
--      groups (metric_group, over_samples, over_metrics): the reducers median, mean, sum or max
-- out: run_key, host, window, metric_group, start_ts, value, samples, metrics; a window without data has no
--      row, and the incomplete last window is dropped
WITH per_metric AS (
    -- every reducer at once: cheaper than to look up, sample by sample, which one is wanted
    SELECT
        host,
        metric_group,
        metric,
        sample // $samples AS "window",
        any_value(run_key) AS run_key,
        min(ts) AS start_ts,
        median(value) AS median_value,
        avg(value) AS mean_value,
        sum(value) AS sum_value,
        max(value) AS max_value,
        count(value) AS samples
    FROM (SELECT * REPLACE (CASE WHEN isfinite(value) THEN value END AS value) FROM curated)
    WHERE sample < ((SELECT max(sample) + 1 FROM curated) // $samples) * $samples
    GROUP BY host, metric_group, metric, "window"
),
reduced AS (
    SELECT
        p.* EXCLUDE (median_value, mean_value, sum_value, max_value),
        CASE over_samples
            WHEN 'median' THEN median_value
            WHEN 'mean' THEN mean_value
            WHEN 'sum' THEN sum_value
            WHEN 'max' THEN max_value
        END AS value,
        over_metrics
    FROM per_metric AS p
    JOIN groups USING (metric_group)
),
windows AS (
    SELECT
        any_value(run_key) AS run_key,
        host,
        "window",
        metric_group,
        min(start_ts) AS start_ts,
        CASE any_value(over_metrics)
            WHEN 'median' THEN median(value)
            WHEN 'mean' THEN avg(value)
            WHEN 'sum' THEN sum(value)
            WHEN 'max' THEN max(value)
        END AS value,
        sum(samples)::BIGINT AS samples,
        count(value) AS metrics
    FROM reduced
    GROUP BY host, "window", metric_group
)
SELECT *
FROM windows
WHERE isfinite(value)  -- neither nothing nor a sum that overflowed
ORDER BY host, "window", metric_group
