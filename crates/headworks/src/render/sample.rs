//! A made-up state for tests: 256 users in two classes, 16 inside, 200 waiting, 40 idle.

use crate::status::{
    ClassStatus, Counterfactual, CounterfactualClass, Percentiles, Status, UserStatus,
};
use std::collections::BTreeMap;

fn percentiles(p50: f64) -> Percentiles {
    Percentiles {
        p50_ms: Some(p50),
        p95_ms: Some(p50 * 3.0),
        p99_ms: Some(p50 * 5.0),
        p999_ms: Some(p50 * 9.0),
    }
}

fn class(name: &str, weight: f64, users: u32, inside: u32, waiting: u32) -> ClassStatus {
    ClassStatus {
        name: name.to_owned(),
        weight,
        weight_of: if name == "reports" { "class" } else { "user" }.to_owned(),
        users,
        inside,
        waiting,
        requests_per_s: f64::from(users) * 3.9,
        requests: 1_234_567,
        queued: 600_000,
        passed: 3,
        latency: percentiles(92.0),
        wait: percentiles(81.0),
    }
}

fn user(at: u32) -> UserStatus {
    let (state, reason, since_ms) = match at {
        0..200 => (
            "waiting",
            "all P permits are taken: it waits for its turn",
            Some(241.0 - f64::from(at)),
        ),
        200..216 => (
            "inside",
            "keeps its permit until its transaction or lock ends",
            Some(f64::from(220 - at) / 4.0),
        ),
        _ => ("idle", "", None),
    };
    UserStatus {
        tls: String::new(),
        user: at,
        account: if at.is_multiple_of(8) { format!("report{at}") } else { format!("web{at}") },
        database: "shop".to_owned(),
        application: "sysbench".to_owned(),
        address: if at.is_multiple_of(2) { "10.0.0.7".to_owned() } else { String::new() },
        class: if at.is_multiple_of(8) { "reports" } else { "default" }.to_owned(),
        state: state.to_owned(),
        reason: reason.to_owned(),
        since_ms,
        holding: if state == "inside" { vec!["transaction".to_owned()] } else { Vec::new() },
        requests: 4_000 + u64::from(at),
        requests_per_s: 3.9,
        wait_ms_mean: 80.0 + f64::from(at % 13),
        wait_ms_max: 300.0,
        latency_ms_mean: 90.0 + f64::from(at % 17),
        latency_ms_max: 320.0,
        latency_cv: Some(0.31),
    }
}

/// A gate under load, as it should be.
pub(crate) fn busy() -> Status {
    Status {
        protocol: "mysql".to_owned(),
        metrics: Vec::new(),
        instance: "mariadbd".to_owned(),
        mode: "enforce".to_owned(),
        gate: "closed".to_owned(),
        parallelism: 16,
        parallelism_auto: false,
        parallelism_search: None,
        stall_bonus: 0,
        quota_requests: 0,
        server_pid: 4711,
        daemon_pid: 4712,
        window_s: 5.0,
        requests_per_s: 1001.3,
        turns_per_s: 50.2,
        users: 256,
        inside: 16,
        waiting: 200,
        blocked: 0,
        thinking: 0,
        long: 0,
        unfairness: Some(0.0123),
        latency_cv: Some(0.31),
        latency: percentiles(92.0),
        wait: percentiles(81.0),
        classes: vec![class("default", 1.0, 224, 14, 175), class("reports", 0.5, 32, 2, 25)],
        targets: vec![],
        cgroup: None,
        connections: (0..256).map(user).collect(),
        counters: BTreeMap::from([
            ("lent".to_owned(), 12),
            ("stalls".to_owned(), 0),
            ("not_known_here".to_owned(), 1),
        ]),
        config_error: None,
        metrics_error: None,
        log: None,
        counterfactual: None,
    }
}

/// The same after a dry run.
pub(crate) fn dry_run() -> Status {
    Status {
        mode: "dry-run".to_owned(),
        gate: "open".to_owned(),
        waiting: 0,
        counterfactual: Some(Counterfactual {
            turns: 12_345,
            span_s: 30.0,
            held_share: 0.834,
            classes: vec![CounterfactualClass {
                name: "default".to_owned(),
                turns: 12_000,
                observed: percentiles(300.0),
                gated: percentiles(120.0),
                gated_wait: percentiles(90.0),
                observed_requests_share: 0.9,
                gated_requests_share: 0.875,
            }],
        }),
        ..busy()
    }
}
