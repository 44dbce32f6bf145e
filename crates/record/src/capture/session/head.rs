//! Where, when and how it was recorded.

use super::Session;
use crate::capture::{idle_since, machine, own_cpu, processors, unix_time};
use crate::trace::{Head, SCHEMA};

/// What is more than so many times the budget is said.
const OVER: f64 = 1.1;

impl Session<'_> {
    pub(super) fn head(&self) -> Head {
        let (host, kernel) = machine();
        let seconds = self.begun.elapsed().as_secs_f64();
        let counted_s = self.counted.as_secs_f64();
        let own = (own_cpu() - self.own_before).as_secs_f64();
        let [clients_cpu, clients_waiting] = self.clients.processors();
        let mut missing = self.missing.clone();
        if counted_s < 0.95 * seconds {
            let attaching = self.kernel.attaching.as_secs_f64();
            let why = if attaching > (seconds - counted_s) / 2.0 {
                format!("since the kernel took {attaching:.1} s to attach programs")
            } else {
                format!("to keep the budget of {:.1} %", self.options.budget * 100.0)
            };
            missing.push(format!(
                "{:.0} % of the time: events were counted for {counted_s:.1} of {seconds:.1} s, {why}",
                (1.0 - counted_s / seconds.max(1e-9)) * 100.0,
            ));
        }
        missing.extend(self.quotas.of_some());
        let (taken, budget) = (self.taken(), self.options.budget);
        if taken > OVER * budget {
            missing.push(format!(
                "the budget of {:.1} %: the kernel's side took {:.2} % of the processors",
                budget * 100.0,
                taken * 100.0
            ));
        }
        Head {
            schema: SCHEMA.to_owned(),
            host,
            kernel,
            mode: "ebpf".to_owned(),
            started_s: unix_time().saturating_sub(seconds as u64),
            seconds,
            counted_s,
            processors: processors(),
            budget,
            taken,
            own: own / seconds.max(1e-9) / f64::from(processors()),
            switches_per_s: self.kernel.switches as f64 / counted_s.max(1e-9),
            clients_cpu,
            clients_waiting,
            idle: idle_since(self.begun, self.idle_before),
            quota: self.quotas.bound(),
            probed_s: self.probed.as_secs_f64(),
            moments_ms: Vec::new(),
            missing,
        }
    }
}
