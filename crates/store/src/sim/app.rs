//! Applications: closed loops of threads.

use headworks_policy::learn::Application;

/// What an application asks of the store.
#[derive(Clone, Copy, Debug)]
pub struct App {
    /// Number of its host.
    pub host: usize,
    /// Threads, each with one I/O at a time.
    pub threads: usize,
    /// Mean time between two I/Os of a thread, in seconds.
    pub think_s: f64,
    /// I/Os of a transaction, one after the other.
    pub ios: f64,
    /// Every so many threads one does large I/Os. Zero: none does.
    pub large_every: usize,
    /// Transactions a second that are wanted. None is best effort.
    pub target: Option<f64>,
    /// Throughput goes with the share to this power (fluid plant).
    pub elasticity: f64,
    /// Transactions a second that something else than storage allows (fluid plant).
    pub cap: f64,
    /// It has work.
    pub on: bool,
}

impl App {
    /// ORION's OLTP mix: 100 small and 10 large I/Os outstanding. Its transactions are I/Os.
    pub const fn oltp_a(host: usize) -> Self {
        App {
            host,
            threads: 110,
            think_s: 0.0,
            ios: 1.0,
            large_every: 11,
            target: None,
            elasticity: 1.0,
            cap: f64::INFINITY,
            on: true,
        }
    }

    /// TPC-C: 64 active threads, 32 I/Os a transaction, a millisecond between them.
    pub const fn dbt2(host: usize, target: f64) -> Self {
        App {
            threads: 64,
            think_s: 0.001,
            ios: 32.0,
            large_every: 0,
            target: Some(target),
            ..App::oltp_a(host)
        }
    }

    /// As controllers know it.
    pub const fn application(&self) -> Application {
        match self.target {
            Some(_) => Application::with_target(self.host),
            None => Application::best_effort(self.host),
        }
    }
}

/// Four OLTP-A on two hosts, each with this target: Figures 4 to 7.
pub fn four_oltp(target: f64) -> Vec<App> {
    (0..4).map(|at| App { target: Some(target), ..App::oltp_a(at / 2) }).collect()
}

/// DBT-2 and three OLTP-A on two hosts: Figure 8.
pub fn dbt2_and_three(target: f64) -> Vec<App> {
    vec![App::dbt2(0, target), App::oltp_a(0), App::oltp_a(1), App::oltp_a(1)]
}

/// As controllers know them.
pub fn applications(apps: &[App]) -> Vec<Application> {
    apps.iter().map(App::application).collect()
}
