-- Pools the quality of all runs into one verdict per platform and metric, and says which metrics are cumulative
-- counters: as declared beside the run files; else by name where that is known, else never falling but for resets,
-- growing, whole and not negative, in order from run to run (docs/adr/0016, 0037).
-- in:  quality (run_key, host, metric, unit, subsystem, samples, missing, infinite, zeros, mean, std, cv, min, max,
--      rises, falls, declared), runs (run_key, platform, started_at, ended_at); $names 'column' | 'metric',
--      $constancy 'mean_cv' | 'pooled_cv', $near_constant, $levels (units that are never cumulative), $min_moves,
--      $max_fall_share, $reset_below, $max_resets, $min_pairs, $max_broken_pairs, $steady; patterns of the names of
--      $known_counters and $known_levels, and $most_falls (share of the moves) that a known counter may show
-- out: platform, metric, unit, subsystem, runs, status, reason, declared, cumulative
WITH named AS (
    SELECT
        platform,
        CASE $names
            -- the column's own name: the host goes before the unit
            WHEN 'column' THEN regexp_replace(metric, '(\[[^\[\]]*\])?$', '.' || host || '\1')
            ELSE metric
        END AS metric,
        regexp_matches(metric, '^[^:]*_diff:') AS differenced,
        regexp_full_match(metric, $known_counters, 'i') AS known_counter,
        regexp_full_match(metric, $known_levels, 'i') AS known_level,
        q.* EXCLUDE (metric, run_key),
        run_key,
        started_at,
        ended_at,
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
        ) / nullif(abs(any_value(grand_mean)), 0) AS pooled_cv,
        bool_or(differenced) AS differenced,
        -- where files contradict each other, nothing is declared
        CASE WHEN count(DISTINCT declared) = 1 THEN min(declared) END AS declared,
        bool_and(known_counter) AS known_counter,
        bool_and(known_level) AS known_level,
        min(min) AS lowest,
        -- within 1e-6 of a whole number, or so large that a fraction says nothing
        bool_and(abs(min - round(min)) <= 1e-6 * greatest(1, abs(min))) AS whole_low,
        bool_and(abs(max - round(max)) <= 1e-6 * greatest(1, abs(max))) AS whole_high,
        sum(rises) AS rises,
        sum(falls) AS falls,
        coalesce(sum(falls) FILTER (falls <= $max_resets AND min < $reset_below * max), 0) AS resets,
        sum(greatest(n - 1, 0)) AS steps
    FROM named
    JOIN grand USING (platform, metric)
    GROUP BY ALL
),
-- runs of a host one after the other; where one of two fell, its largest value is not its last, nor its smallest its
-- first, and the two say nothing
successive AS (
    SELECT
        platform,
        metric,
        min AS first_value,
        lag(max) OVER earlier AS last_before,
        started_at > lag(ended_at) OVER earlier AND falls + lag(falls) OVER earlier = 0 AS comparable
    FROM named
    WHERE n > 0
    WINDOW earlier AS (PARTITION BY platform, metric, host ORDER BY started_at, run_key)
),
ordered AS (
    SELECT
        platform,
        metric,
        count(*) AS pairs,
        count(*) FILTER (first_value < last_before) AS broken,
        count(*) FILTER (first_value > last_before) AS climbs
    FROM successive
    WHERE comparable
    GROUP BY ALL
),
judged AS (
    SELECT
        pooled.*,
        CASE $constancy WHEN 'mean_cv' THEN mean_cv ELSE pooled_cv END AS cv,
        CASE
            WHEN always_missing THEN 'always_missing'
            WHEN always_zero THEN 'always_zero'
            WHEN cv < $near_constant THEN 'near_constant'
            ELSE 'usable'
        END AS status,
        CASE
            WHEN declared IS NOT NULL THEN declared = 'counter'
            ELSE
                NOT differenced
                AND NOT known_level
                AND NOT list_contains($levels, unit)
                AND lowest >= 0
                AND whole_low
                AND whole_high
                AND CASE
                    -- one that a collector reports as a rate under a counter's name falls as often as it rises
                    WHEN known_counter THEN falls - resets <= $most_falls * (rises + falls)
                    ELSE
                        rises > 0
                        AND falls - resets <= $max_fall_share * (rises + falls)
                        AND rises + falls + coalesce(climbs, 0) >= $min_moves
                        AND CASE
                            WHEN pairs >= $min_pairs THEN broken <= $max_broken_pairs * pairs
                            ELSE coalesce(broken, 0) = 0 AND rises >= $steady * steps
                        END
                END
        END
        AS cumulative
    FROM pooled
    LEFT JOIN ordered USING (platform, metric)
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
    END AS reason,
    declared,
    coalesce(cumulative, false) AS cumulative
FROM judged
ORDER BY platform, metric
