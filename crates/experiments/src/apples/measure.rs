//! Numbers of a run, from what the clients wrote down and what the gate says.

use std::collections::BTreeMap;
use std::time::Duration;

use headworks_rig::machine::Load as MachineLoad;
use headworks_workload::driver::{Report, UserReport};

use super::trials::Trials;
use crate::sweep::record::Run;
use headworks_policy::metrics::{percentile, unfairness};

/// Shortest windows in which the bound of unfairness is judged, and requests (transactions) that a
/// mean user should have in one. With fewer, one more or less is most of the unfairness.
const WINDOW_MS: u32 = 10_000;
const REQUESTS: f64 = 40.0;

/// That bound.
const UNFAIRNESS_MAX: f64 = 0.10;

/// Numbers: `throughput_per_s`, `latency_{p50,p95,p99,p999,max}_ms`, `unfairness` (over
/// statements), `unfairness_transactions`, `latency_cv`, `retries_per_s`,
/// `failures`, `least_second_per_s` (the slowest whole second of the window),
/// `unfairness_held_fraction` (windows of 10 s or more with U_f of at most 0.1); with sensitive
/// users also `ls_per_s`, `be_per_s`, `ls_latency_p999_ms`, `ls_latency_cv`.
/// Series: `answered_per_s`, from the begin of the warm-up.
pub(super) fn measure(report: &Report, sensitive: usize, round: u64) -> Run {
    let mut numbers = BTreeMap::new();
    let mut put = |key: &str, value: f64| {
        if value.is_finite() {
            numbers.insert(key.to_owned(), value);
        }
    };
    let window_s = report.options.window.as_secs_f64();
    put("throughput_per_s", report.per_s);
    let ms = |us: u64| us as f64 / 1000.0;
    put("latency_p50_ms", ms(report.latency.p50_us));
    put("latency_p95_ms", ms(report.latency.p95_us));
    put("latency_p99_ms", ms(report.latency.p99_us));
    put("latency_p999_ms", ms(report.latency.p999_us));
    put("latency_max_ms", ms(report.latency.max_us));
    let requests: Vec<f64> = report.users.iter().map(|user| user.requests as f64).collect();
    put("unfairness", unfairness(requests.iter().copied()).unwrap_or(f64::NAN));
    put("unfairness_transactions", report.unfairness.unwrap_or(f64::NAN));
    put("latency_cv", report.latency_cv.unwrap_or(f64::NAN));
    put("retries_per_s", report.retries.values().sum::<u64>() as f64 / window_s);
    put("failures", report.failures.values().sum::<u64>() as f64);
    let answered: Vec<f64> =
        report.series.iter().map(|kinds| f64::from(kinds.iter().sum::<u32>())).collect();
    let from = report.options.warm_up.as_secs() as usize;
    let to = (from + window_s as usize).min(answered.len());
    let least = answered.get(from..to).unwrap_or_default().iter().copied();
    put("least_second_per_s", least.fold(f64::INFINITY, f64::min));
    put("unfairness_held_fraction", held(report));
    if sensitive > 0 {
        let (ls, be) = report.users.split_at(sensitive.min(report.users.len()));
        let per_s = |users: &[UserReport]| {
            users.iter().map(|user| user.count).sum::<u64>() as f64 / window_s
        };
        put("ls_per_s", per_s(ls));
        put("be_per_s", per_s(be));
        let tail = |latencies: &mut dyn Iterator<Item = u32>| {
            let mut sorted: Vec<u32> = latencies.collect();
            sorted.sort_unstable();
            percentile(&sorted, 0.999).map_or(f64::NAN, |us| f64::from(us) / 1000.0)
        };
        put(
            "ls_latency_p999_ms",
            tail(&mut ls.iter().flat_map(|user| &user.trace).map(|a| a.latency_us)),
        );
        let variations: Vec<f64> = ls.iter().filter_map(|user| user.latency_cv).collect();
        put("ls_latency_cv", headworks_policy::metrics::mean(&variations).unwrap_or(f64::NAN));
    }
    Run {
        seed: round,
        numbers,
        series: BTreeMap::from([("answered_per_s".to_owned(), answered)]),
        bucket_s: 1.0,
        load: Some(MachineLoad::at_rest()),
    }
}

/// The same of the window before the trials only, which is the first part of what was reported.
/// What the report says of all of it together is left out.
pub(super) fn measure_before(
    mut report: Report,
    trials: &Trials,
    window_s: u64,
    round: u64,
) -> Run {
    let numbers = trials.own(&report);
    report.options.window = Duration::from_secs(window_s);
    let mut run = measure(&report, 0, round);
    let whole = ["unfairness_transactions", "latency_cv", "retries_per_s"];
    run.numbers.retain(|key, _| !key.starts_with("latency_") && !whole.contains(&key.as_str()));
    run.numbers.extend(numbers);
    let until = report.options.warm_up + report.options.window;
    for series in run.series.values_mut() {
        series.truncate(until.as_secs() as usize);
    }
    run
}

/// Part of the windows in which U_f over statements was within its bound; not a number without a
/// whole window.
fn held(report: &Report) -> f64 {
    let whole_ms = report.options.window.as_millis() as u32;
    let each_per_s = report.per_s / report.users.len().max(1) as f64;
    let wanted_ms = REQUESTS / each_per_s.max(1e-3) * 1e3;
    // Not longer than all there is.
    let length_ms = WINDOW_MS.max(wanted_ms.min(f64::from(whole_ms)) as u32);
    let windows = whole_ms / length_ms;
    let fair = |window: &u32| {
        let within = (window * length_ms)..((window + 1) * length_ms);
        let requests = |user: &UserReport| {
            let answers = user.trace.iter().filter(|answer| within.contains(&answer.at_ms));
            answers.map(|answer| f64::from(answer.requests)).sum()
        };
        let counts: Vec<f64> = report.users.iter().map(requests).collect();
        unfairness(counts.iter().copied()).is_some_and(|unfairness| unfairness <= UNFAIRNESS_MAX)
    };
    (0..windows).filter(fair).count() as f64 / f64::from(windows)
}

/// Key of V_l over requests since the start, as the gate counts them.
pub(super) const REQUEST_CV: &str = "request_latency_cv";

/// Adds what the gate says of classes: `ls_request_p999_ms`, of the class of sensitive users since
/// the start, `target_held_fraction`, windows of the daemon in which a target was held, and
/// [`REQUEST_CV`].
pub(super) fn add_status(run: &mut Run, status: &serde_json::Value) {
    if let Some(cv) = status["latency_cv"].as_f64() {
        run.numbers.insert(REQUEST_CV.to_owned(), cv);
    }
    let classes = status["classes"].as_array().into_iter().flatten();
    let sensitive = classes.filter(|class| class["name"] == "sensitive");
    for p999 in sensitive.filter_map(|class| class["latency"]["p999_ms"].as_f64()) {
        run.numbers.insert("ls_request_p999_ms".to_owned(), p999);
    }
    for target in status["targets"].as_array().into_iter().flatten() {
        if let (Some(held), Some(windows)) =
            (target["windows_held"].as_f64(), target["windows"].as_f64())
            && windows > 0.0
        {
            run.numbers.insert("target_held_fraction".to_owned(), held / windows);
        }
    }
}

/// Adds what the gate says of its search for P: `gate_p`, the one that it holds to be best;
/// `gate_model_p` and `gate_model_per_s`, where the model of the first samples has its first
/// largest throughput (turns a second).
pub(super) fn add_search(run: &mut Run, search: &serde_json::Value) {
    if let Some(p) = search["best"].as_f64() {
        run.numbers.insert("gate_p".to_owned(), p);
    }
    if search["fitted"]["parameters"].is_null() {
        return;
    }
    let curve = search["fitted"]["curve"].as_array().into_iter().flatten();
    let points = curve.filter_map(|point| Some((point[0].as_f64()?, point[1].as_f64()?)));
    // Equation 2 means nothing below the smallest sample, and far beyond its peak it may rise
    // again.
    let least = search["fitted"]["samples"][0][0].as_f64().unwrap_or(1.0);
    let points: Vec<(f64, f64)> = points.filter(|(p, _)| *p >= least).collect();
    let peak = points.windows(2).position(|pair| pair[1].1 < pair[0].1);
    if let Some(&(p, per_s)) = points.get(peak.unwrap_or(points.len().saturating_sub(1))) {
        run.numbers.insert("gate_model_p".to_owned(), p);
        run.numbers.insert("gate_model_per_s".to_owned(), per_s);
    }
}
