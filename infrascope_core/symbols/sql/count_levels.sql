-- Counts how many of a metric group's values fall into each level, and how many runs have two levels.
-- in:  observed (run_key, value), runs (run_key, platform), cuts (platform, low, high)
-- out: platform, low_samples, med_samples, high_samples, runs, low_med_runs, low_high_runs, med_high_runs
WITH counted AS (
    SELECT
        platform,
        run_key,
        count(*) FILTER (WHERE value <= low) AS low_samples,
        count(*) FILTER (WHERE value > low AND value <= high) AS med_samples,
        count(*) FILTER (WHERE value > high) AS high_samples
    FROM observed
    JOIN runs USING (run_key)
    JOIN cuts USING (platform)
    WHERE isfinite(value)
    GROUP BY platform, run_key
)
SELECT
    platform,
    sum(low_samples)::BIGINT AS low_samples,
    sum(med_samples)::BIGINT AS med_samples,
    sum(high_samples)::BIGINT AS high_samples,
    count(*) AS runs,
    count(*) FILTER (WHERE low_samples > 0 AND med_samples > 0) AS low_med_runs,
    count(*) FILTER (WHERE low_samples > 0 AND high_samples > 0) AS low_high_runs,
    count(*) FILTER (WHERE med_samples > 0 AND high_samples > 0) AS med_high_runs
FROM counted
GROUP BY platform
ORDER BY platform
