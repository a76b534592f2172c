-- Pools the quality of all runs into one verdict per platform and metric.
-- in:  quality (run_key, host, metric, unit, subsystem, samples, missing, infinite, zeros, mean, std, cv),
--      runs (run_key, platform); $names 'column' | 'metric', $constancy 'mean_cv' | 'pooled_cv', $near_constant
-- out: platform, metric, unit, subsystem, runs, status, reason
WITH named AS (
    SELECT
        platform,
        CASE $names
            -- the column's own name: the host goes before the unit
            WHEN 'column' THEN regexp_replace(metric, '(\[[^\[\]]*\])?$', '.' || host || '\1')
            ELSE metric
        END AS metric,
        q.* EXCLUDE (metric, run_key),
        run_key,
        samples - missing - infinite AS n
    FROM quality AS q
    JOIN runs USING (run_key)
),
grand AS (
    SELECT platform, metric, sum(n * mean ORDER BY run_key, host) / nullif(sum(n), 0) AS grand_mean
    FROM named
    GROUP BY ALL
),
pooled AS (
    SELECT
        platform,
        metric,
        min(unit) AS unit,
        min(subsystem) AS subsystem,
        count(DISTINCT run_key) AS runs,
        bool_and(n = 0) AS always_missing,
        bool_and(zeros + missing = samples) AS always_zero,
        -- constancy of a run: std/mean, 0 where the mean is 0, negative ratios counted as 0
        avg(CASE WHEN cv < 0 THEN 0 ELSE cv END ORDER BY run_key, host) AS mean_cv,
        -- constancy of all samples together: within the runs and between them
        sqrt(
            (
                sum(coalesce((n - 1) * std * std, 0) ORDER BY run_key, host)
                + sum(n * (mean - grand_mean) ** 2 ORDER BY run_key, host)
            ) / nullif(sum(n) - 1, 0)
        ) / nullif(abs(any_value(grand_mean)), 0) AS pooled_cv
    FROM named
    JOIN grand USING (platform, metric)
    GROUP BY ALL
),
judged AS (
    SELECT
        *,
        CASE $constancy WHEN 'mean_cv' THEN mean_cv ELSE pooled_cv END AS cv,
        CASE
            WHEN always_missing THEN 'always_missing'
            WHEN always_zero THEN 'always_zero'
            WHEN cv < $near_constant THEN 'near_constant'
            ELSE 'usable'
        END AS status
    FROM pooled
)
SELECT
    platform,
    metric,
    unit,
    subsystem,
    runs,
    status,
    CASE status
        WHEN 'always_missing' THEN format('no value in any of {} runs', runs)
        WHEN 'always_zero' THEN format('0 or missing in all of {} runs', runs)
        WHEN 'near_constant' THEN format('{} {:.2g} is below {:.2g}', replace($constancy, '_', ' '), cv, $near_constant)
    END AS reason
FROM judged
ORDER BY platform, metric
