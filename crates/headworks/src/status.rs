//! The state of an instance in figures: the one contract of `status`, `top`, the control socket and
//! the exporters. Every key ends in its unit.

mod build;

pub use build::Fairness;
use headworks_policy::Nanos;
use headworks_policy::histogram::{BUCKETS, percentile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// State of one instance.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// Name of the instance.
    pub instance: String,
    /// `dry-run` or `enforce`.
    pub mode: String,
    /// `closed` (it may hold sessions), `off` (opened by an operator), `open` (the mode holds no
    /// session), `stale` (the daemon sends no heartbeat, so all pass) or `ungoverned`. With the
    /// last one, the server was started by another version, or runs `outside` the gate: all pass
    /// until it is restarted.
    pub gate: String,
    /// The server, if it does not use this gate's region: it was started with an environment or as
    /// a user that keeps it from that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<String>,
    /// A second server that a script started, if its profile is another one: it runs without the
    /// gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// The framing of the clients' protocol.
    #[serde(default)]
    pub protocol: String,
    /// P.
    pub parallelism: u32,
    /// Whether P is tuned automatically, and not fixed by an operator.
    pub parallelism_auto: bool,
    /// State of the search for P; `None` without a daemon.
    pub parallelism_search: Option<String>,
    /// Sessions beyond P that the stall detector admits at the moment.
    pub stall_bonus: u32,
    /// ζ; 0 for its minimum (one request a round for the lightest user).
    pub quota_requests: u32,
    /// Process of the database.
    pub server_pid: u32,
    /// Process of the daemon.
    pub daemon_pid: u32,
    /// Length of the window over which rates and unfairness are taken.
    pub window_s: f64,
    /// Requests answered per second, over the window.
    pub requests_per_s: f64,
    /// Turns (transactions, or single requests outside one) per second, over the window.
    pub turns_per_s: f64,
    /// Connected users.
    pub users: u32,
    /// Users inside.
    pub inside: u32,
    /// Users held.
    pub waiting: u32,
    /// Sessions in the middle of a request that waits for a lock, a client or a sleep. Their permit
    /// is lent.
    #[serde(default)]
    pub blocked: u32,
    /// Sessions in a transaction whose client thinks. Their permit is lent.
    #[serde(default)]
    pub thinking: u32,
    /// Sessions that run for many times the usual length and do not count in P. They are part of
    /// `inside`.
    #[serde(default)]
    pub long: u32,
    /// U_f over requests per weight, of the sessions that were busy through the window.
    pub unfairness: Option<f64>,
    /// V_l: variation of each user's latency, averaged over users, since they connected.
    pub latency_cv: Option<f64>,
    /// Latency of requests in the gate and the database together.
    pub latency: Percentiles,
    /// The time of these requests in the gate.
    pub wait: Percentiles,
    /// By class.
    pub classes: Vec<ClassStatus>,
    /// Classes with a latency target.
    #[serde(default)]
    pub targets: Vec<crate::slo::SloStatus>,
    /// All sessions: first the queued ones, the longest wait first, then the admitted ones.
    pub connections: Vec<UserStatus>,
    /// Counters of the gate.
    pub counters: BTreeMap<String, u64>,
    /// Error of the last reload. The configuration before it is in force.
    pub config_error: Option<String>,
    /// Why metrics are not served where the configuration says; everything else of it is in force.
    #[serde(default)]
    pub metrics_error: Option<String>,
    /// Path of the daemon's log; `None` if there is none.
    #[serde(default)]
    pub log: Option<String>,
    /// State of processor time by weights; `None` if it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<crate::cgroup::CgroupStatus>,
    /// The scheduler of files; `None` if files are not scheduled. The control socket leaves it out:
    /// an operator may see more of the processes than the daemon.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub files: Option<crate::io::Files>,
    /// Where Prometheus is served; empty without a daemon.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// What enforcing would have changed, in the modes that hold no session.
    pub counterfactual: Option<Counterfactual>,
}

/// Percentiles in milliseconds, since the start. `None` before the first request.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)] // the names say it
pub struct Percentiles {
    pub p50_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub p999_ms: Option<f64>,
}

impl Percentiles {
    fn of(counts: &[u64; BUCKETS]) -> Self {
        let at = |quantile| percentile(counts, quantile).map(Nanos::as_millis_f64);
        Percentiles { p50_ms: at(0.5), p95_ms: at(0.95), p99_ms: at(0.99), p999_ms: at(0.999) }
    }
}

/// One class.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub weight: f64,
    /// Whether each session has the weight (`user`) or all of them share it (`class`).
    pub weight_of: String,
    /// Connected users.
    pub users: u32,
    /// Users inside.
    pub inside: u32,
    /// Users held.
    pub waiting: u32,
    /// Requests per second, over the window.
    pub requests_per_s: f64,
    /// Requests since the start.
    pub requests: u64,
    /// Requests that waited, since the start.
    pub queued: u64,
    /// Requests let pass without a permit, since the start.
    pub passed: u64,
    /// See [`Status::latency`].
    pub latency: Percentiles,
    /// See [`Status::wait`].
    pub wait: Percentiles,
}

/// One user, that is one client connection.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UserStatus {
    /// Index in the region.
    pub user: u32,
    /// Database account.
    pub account: String,
    /// Database named at connection.
    pub database: String,
    /// Application name.
    pub application: String,
    /// Client address; empty on a Unix socket.
    pub address: String,
    /// How its bytes are encrypted; empty if they are not.
    #[serde(default)]
    pub tls: String,
    /// Name of its class.
    pub class: String,
    /// What it does.
    pub state: String,
    /// Why it is held, or why it is not.
    pub reason: String,
    /// Since when it has been queued or admitted with its request; `None` if neither.
    pub since_ms: Option<f64>,
    /// What it holds: `transaction`, `lock-tables` and so on.
    pub holding: Vec<String>,
    /// Requests since it connected.
    pub requests: u64,
    /// Requests per second, over the window.
    pub requests_per_s: f64,
    /// Mean wait of a request.
    pub wait_ms_mean: f64,
    /// Longest wait of a request.
    pub wait_ms_max: f64,
    /// Mean latency of a request.
    pub latency_ms_mean: f64,
    /// Longest latency of a request.
    pub latency_ms_max: f64,
    /// Variation of its latencies.
    pub latency_cv: Option<f64>,
}

/// What the gate would have changed, by replay of the observed turns. The policy's `counterfactual`
/// module describes the model and its limits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counterfactual {
    /// Turns replayed.
    pub turns: u64,
    /// Time that they cover.
    pub span_s: f64,
    /// Share of the turns that would have waited.
    pub held_share: f64,
    /// By class: as it was, and as it would have been.
    pub classes: Vec<CounterfactualClass>,
}

/// One class of a [`Counterfactual`]. Latencies are of whole turns.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)] // the names say it
pub struct CounterfactualClass {
    pub name: String,
    pub turns: u64,
    pub observed: Percentiles,
    pub gated: Percentiles,
    pub gated_wait: Percentiles,
    pub observed_requests_share: f64,
    pub gated_requests_share: f64,
}

impl Counterfactual {
    /// Percentiles of a list of times.
    pub fn percentiles(times: impl Iterator<Item = Nanos>) -> Percentiles {
        let mut counts = [0u64; BUCKETS];
        for time in times {
            counts[headworks_policy::histogram::bucket_of(time)] += 1;
        }
        Percentiles::of(&counts)
    }
}
