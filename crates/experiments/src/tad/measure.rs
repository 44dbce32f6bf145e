//! Names for everything that a simulation found, so that figures can say what they keep.

use std::collections::BTreeMap;

use headworks_tad::sim::Outcome;

use crate::sweep::record::Run;

/// Digits that are kept: more than any conclusion needs, and records stay small.
const DIGITS: i32 = 5;

/// What a figure keeps of a simulation.
///
/// Numbers: `C_per_s`, `C.load_per_s`, `C.load_latency_{mean,p50,p95,p99,max}_ms` of client C;
/// `node.resource_used_fraction` and `node.resource_C_fraction` (C's part of the busy time);
/// `stage_C_waiting_requests`, `stage_C_serving_threads`, `stage_C_forced_fraction` (of the time:
/// work that went to C because no other client waited); `aborted_per_s`. Series: `C_per_s`;
/// `stage_C_serving_threads`; `node.resource_used_{mean,low,high}_fraction`.
pub(crate) fn measure(outcome: &Outcome, keep: &[&str]) -> Run {
    let mut kept = Kept { keep, numbers: BTreeMap::new(), series: BTreeMap::new() };
    let names: Vec<&str> = outcome.clients.iter().map(|client| client.name.as_str()).collect();
    for client in &outcome.clients {
        let name = &client.name;
        kept.number(format!("{name}_per_s"), client.throughput_per_s);
        kept.series(format!("{name}_per_s"), || client.series_per_s.clone());
        for load in &client.loads {
            let name = format!("{name}.{}", load.name);
            kept.number(format!("{name}_per_s"), load.throughput_per_s);
            kept.number(format!("{name}_latency_mean_ms"), load.latency_ms_mean);
            kept.number(format!("{name}_latency_p50_ms"), load.latency_ms_p50);
            kept.number(format!("{name}_latency_p95_ms"), load.latency_ms_p95);
            kept.number(format!("{name}_latency_p99_ms"), load.latency_ms_p99);
            kept.number(format!("{name}_latency_max_ms"), load.latency_ms_max);
        }
    }
    for resource in &outcome.resources {
        let name = format!("{}.{}", resource.node, resource.name);
        kept.number(format!("{name}_used_fraction"), resource.utilization);
        for (client, share) in names.iter().zip(&resource.shares) {
            kept.number(format!("{name}_{client}_fraction"), *share);
        }
        for (place, part) in ["mean", "low", "high"].into_iter().enumerate() {
            kept.series(format!("{name}_used_{part}_fraction"), || {
                resource.series.iter().map(|bucket| bucket[place]).collect()
            });
        }
    }
    for stage in &outcome.stages {
        let name = &stage.name;
        for (place, client) in names.iter().enumerate() {
            let of = |values: &[f64]| values.get(place).copied().unwrap_or_default();
            kept.number(format!("{name}_{client}_waiting_requests"), of(&stage.waiting));
            kept.number(format!("{name}_{client}_serving_threads"), of(&stage.serving));
            kept.number(
                format!("{name}_{client}_forced_fraction"),
                of(&stage.forced_s) / outcome.counted_s,
            );
            kept.series(format!("{name}_{client}_serving_threads"), || {
                stage.serving_series.iter().map(|bucket| of(bucket)).collect()
            });
        }
    }
    kept.number("aborted_per_s".to_owned(), outcome.aborted as f64 / outcome.counted_s);
    Run {
        seed: outcome.seed,
        numbers: kept.numbers,
        series: kept.series,
        bucket_s: outcome.sample_s,
        load: None,
    }
}

struct Kept<'a> {
    keep: &'a [&'a str],
    numbers: BTreeMap<String, f64>,
    series: BTreeMap<String, Vec<f64>>,
}

impl Kept<'_> {
    fn number(&mut self, key: String, value: f64) {
        if self.keep.iter().any(|pattern| fits(pattern, &key)) {
            self.numbers.insert(key, rounded(value));
        }
    }

    /// Series are kept by `series:KEY`: they are long, and most figures want none.
    fn series(&mut self, key: String, values: impl FnOnce() -> Vec<f64>) {
        let wanted = |pattern: &&str| {
            pattern.strip_prefix("series:").is_some_and(|pattern| fits(pattern, &key))
        };
        if self.keep.iter().any(wanted) {
            self.series.insert(key, values().into_iter().map(rounded).collect());
        }
    }
}

/// Whether a key fits a pattern, of which one `*` may stand for anything.
fn fits(pattern: &str, key: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == key,
        Some((begin, end)) => {
            key.len() >= begin.len() + end.len() && key.starts_with(begin) && key.ends_with(end)
        }
    }
}

fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let places = DIGITS - 1 - value.abs().log10().floor() as i32;
    // Through text, because a division would leave 0.30000000000000004.
    format!("{value:.*}", places.max(0) as usize).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_keys() {
        assert!(fits("C1_per_s", "C1_per_s") && !fits("C1_per_s", "C1.get_per_s"));
        assert!(fits("C*_per_s", "C1.get_per_s") && !fits("C1*1", "C1"));
    }

    #[test]
    fn numbers_keep_five_digits() {
        assert_eq!(rounded(0.123_456_78), 0.12346);
        assert_eq!(rounded(12_345.678), 12_346.0);
        assert_eq!(rounded(f64::NAN), 0.0);
    }
}
