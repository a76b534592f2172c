-- Counts how many of a metric group's pooled values fall into each level.
-- in:  observed (run_key, value), runs (run_key, platform), cuts (platform, low, high)
-- out: platform, low_samples, med_samples, high_samples
SELECT
    platform,
    count(*) FILTER (WHERE value <= low) AS low_samples,
    count(*) FILTER (WHERE value > low AND value <= high) AS med_samples,
    count(*) FILTER (WHERE value > high) AS high_samples
FROM observed
JOIN runs USING (run_key)
JOIN cuts USING (platform)
WHERE isfinite(value)
GROUP BY platform
ORDER BY platform
