//! Counting.

use super::CLIENTS;
use super::outcome::{ClientOutcome, LoadOutcome, Outcome, ResourceOutcome, StageOutcome};
use super::plan::Plan;
use super::resource::ResourceInstance;
use super::slab::Slab;
use crate::model::Tad;
use crate::scenario::Scenario;
use headworks_policy::Nanos;
use headworks_policy::histogram::{BUCKETS, bucket_of, percentile};

/// Numbers by client that change in steps, with their integrals over time.
#[derive(Clone, Debug)]
pub(super) struct Gauge {
    pub(super) value: [u32; CLIENTS],
    integral: [u64; CLIENTS],
    changed_ns: [u64; CLIENTS],
    counted_from: [u64; CLIENTS],
}

impl Gauge {
    fn new() -> Gauge {
        Gauge {
            value: [0; CLIENTS],
            integral: [0; CLIENTS],
            changed_ns: [0; CLIENTS],
            counted_from: [0; CLIENTS],
        }
    }

    fn settle(&mut self, client: usize, now_ns: u64) {
        let span = now_ns - self.changed_ns[client];
        self.integral[client] += span * u64::from(self.value[client]);
        self.changed_ns[client] = now_ns;
    }

    pub(super) fn up(&mut self, client: usize, now_ns: u64) {
        self.settle(client, now_ns);
        self.value[client] += 1;
    }

    pub(super) fn down(&mut self, client: usize, now_ns: u64) {
        self.settle(client, now_ns);
        self.value[client] -= 1;
    }

    fn settled(&mut self, clients: usize, now_ns: u64) -> Vec<u64> {
        (0..clients)
            .map(|client| {
                self.settle(client, now_ns);
                self.integral[client]
            })
            .collect()
    }
}

#[derive(Clone, Debug)]
struct LoadStats {
    answered: u64,
    latency_ns: u128,
    latency_ns_max: u64,
    buckets: Box<[u64; BUCKETS]>,
    series: Vec<u64>,
}

/// What is counted at a stage.
#[derive(Clone, Debug)]
pub(super) struct StageStats {
    pub(super) waiting: Gauge,
    pub(super) serving: Gauge,
    pub(super) forced_ns: [u64; CLIENTS],
    serving_over_time: OverTime,
    waiting_over_time: OverTime,
}

/// Means of a gauge in each bucket.
#[derive(Clone, Debug, Default)]
struct OverTime {
    last: Vec<u64>,
    series: Vec<Vec<f64>>,
}

impl OverTime {
    fn new(clients: usize) -> OverTime {
        OverTime { last: vec![0; clients], series: Vec::new() }
    }

    fn sample(&mut self, settled: Vec<u64>, span_ns: f64) {
        let means = settled.iter().zip(&self.last).map(|(now, last)| (now - last) as f64 / span_ns);
        self.series.push(means.collect());
        self.last = settled;
    }
}

#[derive(Clone, Debug, Default)]
struct ResourceStats {
    busy_ns: Vec<u64>,
    series: Vec<[f64; 3]>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Stats {
    clients: usize,
    sample_ns: u64,
    sampled_ns: u64,
    counted_from_ns: u64,
    pub(super) stages: Vec<StageStats>,
    loads: Vec<LoadStats>,
    resources: Vec<ResourceStats>,
    pub(super) events: u64,
    pub(super) parts: u64,
    pub(super) aborted: u64,
}

impl Stats {
    pub(super) fn new(plan: &Plan, clients: usize, sample_ns: u64) -> Stats {
        let stage = StageStats {
            waiting: Gauge::new(),
            serving: Gauge::new(),
            forced_ns: [0; CLIENTS],
            serving_over_time: OverTime::new(clients),
            waiting_over_time: OverTime::new(clients),
        };
        let load = LoadStats {
            answered: 0,
            latency_ns: 0,
            latency_ns_max: 0,
            buckets: Box::new([0; BUCKETS]),
            series: Vec::new(),
        };
        let resource = ResourceStats { busy_ns: vec![0; clients], series: Vec::new() };
        Stats {
            clients,
            sample_ns,
            sampled_ns: 0,
            counted_from_ns: 0,
            stages: vec![stage; plan.stages.len()],
            loads: vec![load; plan.loads.len()],
            resources: vec![resource; plan.resources.len()],
            events: 0,
            parts: 0,
            aborted: 0,
        }
    }

    /// A request was answered.
    pub(super) fn answered(&mut self, load: u32, latency_ns: u64, now_ns: u64) {
        let stats = &mut self.loads[load as usize];
        let bucket = (now_ns / self.sample_ns) as usize;
        if stats.series.len() <= bucket {
            stats.series.resize(bucket + 1, 0);
        }
        stats.series[bucket] += 1;
        stats.answered += 1;
        stats.latency_ns += u128::from(latency_ns);
        stats.latency_ns_max = stats.latency_ns_max.max(latency_ns);
        stats.buckets[bucket_of(Nanos(latency_ns))] += 1;
    }

    /// A bucket of the series is full.
    pub(super) fn sample(&mut self, resources: &mut [ResourceInstance], now_ns: u64) {
        let span = (now_ns - self.sampled_ns).max(1) as f64;
        self.sampled_ns = now_ns;
        let mut sums = vec![[0.0, f64::INFINITY, 0.0, 0.0]; self.resources.len()];
        for instance in resources {
            let busy: u64 = instance.busy_ns.iter().sum();
            let used = busy as f64 / span / f64::from(instance.servers());
            let [sum, least, most, nodes] = &mut sums[instance.resource as usize];
            *sum += used;
            *least = least.min(used);
            *most = most.max(used);
            *nodes += 1.0;
            let stats = &mut self.resources[instance.resource as usize];
            for (to, from) in stats.busy_ns.iter_mut().zip(&mut instance.busy_ns) {
                *to += std::mem::take(from);
            }
        }
        for (stats, [sum, least, most, nodes]) in self.resources.iter_mut().zip(sums) {
            stats.series.push([sum / nodes, least, most]);
        }
        for stage in &mut self.stages {
            let settled = stage.serving.settled(self.clients, now_ns);
            stage.serving_over_time.sample(settled, span);
            let settled = stage.waiting.settled(self.clients, now_ns);
            stage.waiting_over_time.sample(settled, span);
        }
    }

    /// The warm-up is over: what was counted so far does not count.
    pub(super) fn count(&mut self, resources: &mut [ResourceInstance], now_ns: u64) {
        self.counted_from_ns = now_ns;
        for load in &mut self.loads {
            load.answered = 0;
            load.latency_ns = 0;
            load.latency_ns_max = 0;
            load.buckets.fill(0);
        }
        for instance in resources {
            // What is in the bucket under way began before: less than a bucket is lost.
            instance.busy_ns = [0; CLIENTS];
        }
        for resource in &mut self.resources {
            resource.busy_ns.fill(0);
        }
        for stage in &mut self.stages {
            stage.forced_ns = [0; CLIENTS];
            for gauge in [&mut stage.waiting, &mut stage.serving] {
                let settled = gauge.settled(self.clients, now_ns);
                gauge.counted_from[..self.clients].copy_from_slice(&settled);
            }
        }
    }

    /// Everything, at the end.
    pub(super) fn finish(
        mut self,
        (tad, scenario, seed): (&Tad, &Scenario, u64),
        plan: &Plan,
        slab: &Slab,
        now_ns: u64,
    ) -> Outcome {
        let counted_ns = (now_ns - self.counted_from_ns).max(1);
        let counted_s = counted_ns as f64 / 1e9;
        let clients = scenario
            .clients
            .iter()
            .enumerate()
            .map(|(id, client)| self.client(id, &client.name, client.weight, plan, counted_s));
        let clients: Vec<ClientOutcome> = clients.collect();
        let resources = tad.resources.iter().zip(&self.resources).zip(&plan.resources);
        let resources = resources
            .map(|((resource, stats), planned)| {
                let busy: u64 = stats.busy_ns.iter().sum();
                let servers = f64::from(planned.nodes) * f64::from(resource.parallelism.max(1));
                let share = |part: &u64| *part as f64 / busy.max(1) as f64;
                ResourceOutcome {
                    name: resource.name.clone(),
                    node: tad.nodes[resource.node].name.clone(),
                    utilization: busy as f64 / counted_ns as f64 / servers,
                    shares: stats.busy_ns.iter().map(share).collect(),
                    series: stats.series.clone(),
                }
            })
            .collect();
        let stages = tad.stages.iter().zip(&mut self.stages);
        let stages = stages
            .map(|(stage, stats)| {
                let mean = |gauge: &mut Gauge| -> Vec<f64> {
                    let settled = gauge.settled(self.clients, now_ns);
                    let from = &gauge.counted_from;
                    settled
                        .iter()
                        .zip(from)
                        .map(|(now, from)| (now - from) as f64 / counted_ns as f64)
                        .collect()
                };
                StageOutcome {
                    name: stage.name.clone(),
                    waiting: mean(&mut stats.waiting),
                    serving: mean(&mut stats.serving),
                    serving_series: std::mem::take(&mut stats.serving_over_time.series),
                    waiting_series: std::mem::take(&mut stats.waiting_over_time.series),
                    forced_s: stats.forced_ns[..self.clients]
                        .iter()
                        .map(|ns| *ns as f64 / 1e9)
                        .collect(),
                }
            })
            .collect();
        Outcome {
            system: tad.name.clone(),
            scenario: scenario.name.clone(),
            seed,
            counted_s,
            sample_s: self.sample_ns as f64 / 1e9,
            events: self.events,
            parts: self.parts,
            in_flight_max: slab.in_flight_max,
            aborted: self.aborted,
            clients,
            resources,
            stages,
        }
    }

    fn client(
        &self,
        id: usize,
        name: &str,
        weight: f64,
        plan: &Plan,
        counted_s: f64,
    ) -> ClientOutcome {
        let mut loads: Vec<LoadOutcome> = Vec::new();
        let mut series: Vec<f64> = Vec::new();
        for (load, stats) in plan.loads.iter().zip(&self.loads) {
            if load.client as usize != id {
                continue;
            }
            if series.len() < stats.series.len() {
                series.resize(stats.series.len(), 0.0);
            }
            for (sum, count) in series.iter_mut().zip(&stats.series) {
                *sum += *count as f64 * 1e9 / self.sample_ns as f64;
            }
            let ms = |quantile: f64| {
                percentile(&stats.buckets, quantile).map_or(0.0, Nanos::as_millis_f64)
            };
            loads.push(LoadOutcome {
                name: load.name.clone(),
                answered: stats.answered,
                throughput_per_s: stats.answered as f64 / counted_s,
                latency_ms_mean: stats.latency_ns as f64 / 1e6 / stats.answered.max(1) as f64,
                latency_ms_p50: ms(0.5),
                latency_ms_p95: ms(0.95),
                latency_ms_p99: ms(0.99),
                latency_ms_max: Nanos(stats.latency_ns_max).as_millis_f64(),
            });
        }
        ClientOutcome {
            name: name.to_owned(),
            weight,
            throughput_per_s: loads.iter().map(|load| load.throughput_per_s).sum(),
            loads,
            series_per_s: series,
        }
    }
}
