//! Results for people.

use headworks_workload::driver::Report;
use headworks_workload::tpcc::Condition;

fn milliseconds(us: u64) -> f64 {
    us as f64 / 1_000.0
}

/// One line for each transaction, and what the run says as a whole.
pub fn report(report: &Report, new_orders_per_minute: f64) {
    println!(
        "{:<14}{:>10}{:>10}{:>12}{:>12}{:>12}{:>12}",
        "", "count", "per s", "p50 ms", "p95 ms", "p99 ms", "max ms"
    );
    for kind in &report.kinds {
        println!(
            "{:<14}{:>10}{:>10.1}{:>12.2}{:>12.2}{:>12.2}{:>12.2}",
            kind.name,
            kind.count,
            kind.per_s,
            milliseconds(kind.latency.p50_us),
            milliseconds(kind.latency.p95_us),
            milliseconds(kind.latency.p99_us),
            milliseconds(kind.latency.max_us)
        );
    }
    println!("{:<14}{:>10}{:>10.1}", "all", report.count, report.per_s);
    println!("New-Orders per minute {new_orders_per_minute:.0} (not an audited tpmC)");
    if let Some(unfairness) = report.unfairness {
        println!("unfairness U_f {:.1} %", unfairness * 100.0);
    }
    if let Some(cv) = report.latency_cv {
        println!("latency CV {cv:.2}");
    }
    if report.overdue > 0 {
        println!("overdue at the end {}", report.overdue);
    }
    for (kind, count) in &report.retries {
        println!("tried again after {} {count}", kind.name());
    }
    for (kind, count) in &report.failures {
        println!("failed with {} {count}", kind.name());
    }
    if let Some(failure) = &report.first_failure {
        println!("for example: {failure}");
    }
    for (note, count) in &report.notes {
        println!("{note} {count}");
    }
}

/// One line for each condition.
pub fn checks(checks: &[Condition]) {
    for condition in checks {
        println!(
            "{} {}. {} ({} of {} violate it)",
            if condition.holds { "holds" } else { "FAILS" },
            condition.number,
            condition.statement,
            condition.violations,
            condition.examined
        );
    }
}
