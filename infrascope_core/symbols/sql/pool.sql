-- Pools a metric group's values over all runs of each platform, and describes what levels can be cut from them.
-- in:  observed (run_key, value), runs (run_key, platform); $lower and $upper quantile
-- out: platform, samples, lower, upper (linear interpolation), smallest, smallest_samples, largest, largest_samples,
--      mode (the commonest value, the smallest of equals), mode_samples, rest_median (median without the mode)
WITH pooled AS (
    SELECT platform, value
    FROM observed
    JOIN runs USING (run_key)
    WHERE isfinite(value)
),
counted AS (
    SELECT platform, value, count(*) AS n
    FROM pooled
    GROUP BY ALL
),
extremes AS (
    SELECT platform, min(value) AS smallest, max(value) AS largest
    FROM pooled
    GROUP BY ALL
),
modes AS (
    SELECT platform, min(value) AS mode, any_value(n) AS mode_samples
    FROM (SELECT * FROM counted QUALIFY rank() OVER (PARTITION BY platform ORDER BY n DESC) = 1)
    GROUP BY ALL
)
SELECT
    platform,
    count(*) AS samples,
    quantile_cont(value, $lower) AS lower,
    quantile_cont(value, $upper) AS upper,
    min(value) AS smallest,
    count(*) FILTER (WHERE value = extremes.smallest) AS smallest_samples,
    max(value) AS largest,
    count(*) FILTER (WHERE value = extremes.largest) AS largest_samples,
    any_value(mode) AS mode,
    any_value(mode_samples) AS mode_samples,
    median(value) FILTER (WHERE value <> mode) AS rest_median
FROM pooled
JOIN modes USING (platform)
JOIN extremes USING (platform)
GROUP BY platform
ORDER BY platform
