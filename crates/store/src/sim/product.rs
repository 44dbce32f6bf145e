//! The product law: an application with the fraction p at its host, whose host has q at the store,
//! gets p · q of what the device does.
//!
//! It is tested before any controller runs. Where it fails, no controller can learn: the same
//! fractions mean something else for each application.
//!
//! The law is about applications that can use their share. On disks DBT-2 can, beside three OLTP-A.
//! On flash its 64 threads, which wait a millisecond between I/Os, cannot: there are four OLTP-A.

use super::app::{dbt2_and_three, four_oltp};
use super::array::Kind;
use super::level::Enforcement;
use super::request::{Requests, Stack, capacity};
use super::run::Plant;
use headworks_policy::block::quanta;

/// p of the first application at its host, and q of that host at the store.
pub const SETTINGS: [(f64, f64); 8] = [
    (0.9, 0.9),
    (0.7, 0.7),
    (0.5, 0.5),
    (0.9, 0.5),
    (0.5, 0.9),
    (0.3, 0.5),
    (0.1, 0.5),
    (0.3, 0.3),
];

/// What one setting gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// p and q.
    pub setting: (f64, f64),
    /// Use of the device ÷ product of the fractions, of each application.
    pub ratios: [f64; 4],
    /// Part of the unscheduled device's work that was done.
    pub efficiency: f64,
    /// Transactions a second of the first application.
    pub rate: f64,
}

impl Point {
    /// The largest deviation of a ratio from the efficiency, as a part of it.
    pub fn error(&self) -> f64 {
        let far = |ratio: &f64| (ratio / self.efficiency - 1.0).abs();
        self.ratios.iter().map(far).fold(0.0, f64::max)
    }
}

/// Runs all settings for `seconds` each.
pub fn law(stack: Stack, seconds: usize, seed: u64) -> Vec<Point> {
    let capacity = capacity(stack.kind);
    let one = |(p, q): (f64, f64)| {
        let apps = match stack.kind {
            Kind::Disks => dbt2_and_three(1.0),
            Kind::Flash => four_oltp(1.0),
        };
        let mut plant = Requests::new(stack, apps, capacity, seed);
        plant.fractions().host = vec![p, 1.0 - p, 0.5, 0.5];
        plant.fractions().store = vec![q, 1.0 - q];
        let warm_up = (seconds / 5).max(1);
        let (mut used, mut rate) = ([0.0; 4], 0.0);
        for second in 0..warm_up + seconds {
            let figures = plant.second();
            if second >= warm_up {
                rate += figures[0].rate / seconds as f64;
                for (at, used) in used.iter_mut().enumerate() {
                    *used += plant.used(at) / seconds as f64;
                }
            }
        }
        let products = [p * q, (1.0 - p) * q, 0.5 * (1.0 - q), 0.5 * (1.0 - q)];
        let ratios = core::array::from_fn(|at| used[at] / products[at]);
        Point { setting: (p, q), ratios, efficiency: used.iter().sum(), rate }
    };
    SETTINGS.into_iter().map(one).collect()
}

/// Every enforcement that the experiments compare, by name.
pub fn stacks(kind: Kind) -> Vec<(&'static str, Stack)> {
    let fair = Stack::fair(kind);
    let by_host = Stack { by_application: false, ..fair };
    let (paper, usual) = (Enforcement::quanta(), quanta::Settings::default());
    let period = |ms, debt| {
        let period = headworks_policy::Nanos::from_millis(ms);
        Enforcement::Quanta(quanta::Settings { period, debt, whole_queue: debt, ..usual })
    };
    let wide = Enforcement::Quanta(quanta::Settings { whole_queue: true, ..usual });
    let stacked = Stack { host: paper, store: paper, ..by_host };
    vec![
        ("fair, fair by application", fair),
        ("fair, fair by host", by_host),
        ("pass, fair by application", Stack { host: Enforcement::Pass, ..fair }),
        ("quanta, quanta", stacked),
        ("quanta, quanta, blind", Stack { blind: true, ..stacked }),
        ("quanta, quanta, whole queue", Stack { host: wide, store: wide, ..by_host }),
        ("quanta 330 ms, quanta 100 ms", Stack { host: period(330, false), ..stacked }),
        ("fair, quanta 500 ms with debt", Stack { store: period(500, true), ..by_host }),
    ]
}
