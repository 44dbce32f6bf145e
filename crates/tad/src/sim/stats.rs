//! Counting.

use super::CLIENTS;
use super::gauge::Gauge;
use super::lru::Lru;
use super::outcome::{
    CacheOutcome, ClientOutcome, LoadOutcome, Outcome, ResourceOutcome, StageOutcome,
};
use super::plan::{CachePlan, Plan};
use super::resource::ResourceInstance;
use super::slab::Slab;
use crate::model::Tad;
use crate::scenario::Scenario;
use headworks_policy::Nanos;
use headworks_policy::histogram::{BUCKETS, bucket_of, percentile};

#[derive(Clone, Debug)]
struct LoadStats {
    answered: u64,
    latency_ns: u128,
    latency_ns_max: u64,
    buckets: Box<[u64; BUCKETS]>,
    series: Vec<u64>,
    /// Attempts that were given up, and requests without an answer.
    timeouts: u64,
    failed: u64,
    /// What was counted when the last bucket of the series ended, and latencies in each bucket.
    sampled: (u64, u128, Box<[u64; BUCKETS]>),
    latency_series: Vec<Option<[f64; 2]>>,
}

impl LoadStats {
    fn new() -> LoadStats {
        LoadStats {
            answered: 0,
            latency_ns: 0,
            latency_ns_max: 0,
            buckets: Box::new([0; BUCKETS]),
            series: Vec::new(),
            timeouts: 0,
            failed: 0,
            sampled: (0, 0, Box::new([0; BUCKETS])),
            latency_series: Vec::new(),
        }
    }

    /// Mean and 99th percentile of the answers since the last bucket, in milliseconds.
    fn sample(&mut self) {
        let (answered, latency_ns, buckets) = &mut self.sampled;
        let count = self.answered - *answered;
        let latencies = if count == 0 {
            None
        } else {
            for (now, was) in self.buckets.iter().zip(buckets.iter_mut()) {
                *was = *now - *was;
            }
            let p99 = percentile(buckets, 0.99).map_or(0.0, Nanos::as_millis_f64);
            Some([(self.latency_ns - *latency_ns) as f64 / 1e6 / count as f64, p99])
        };
        self.latency_series.push(latencies);
        (*answered, *latency_ns) = (self.answered, self.latency_ns);
        buckets.copy_from_slice(&self.buckets[..]);
    }
}

/// Counters of a stage.
#[derive(Clone, Debug)]
pub(super) struct StageStats {
    pub(super) waiting: Gauge,
    pub(super) serving: Gauge,
    pub(super) forced_ns: [u64; CLIENTS],
    /// Integrals when counting began.
    counted: [[u64; CLIENTS]; 2],
    serving_over_time: OverTime,
    waiting_over_time: OverTime,
}

/// Means of a gauge in each bucket.
#[derive(Clone, Debug)]
struct OverTime {
    /// Integrals when the last bucket ended.
    last: [u64; CLIENTS],
    series: Vec<Vec<f64>>,
}

impl OverTime {
    fn new() -> OverTime {
        OverTime { last: [0; CLIENTS], series: Vec::new() }
    }

    fn sample(&mut self, integrals: [u64; CLIENTS], clients: usize, span_ns: f64) {
        let means = integrals[..clients].iter().zip(&self.last);
        self.series.push(means.map(|(now, last)| (now - last) as f64 / span_ns).collect());
        self.last = integrals;
    }
}

#[derive(Clone, Debug, Default)]
struct ResourceStats {
    /// Busy time of each client when counting began, all nodes together.
    counted: [u64; CLIENTS],
    series: Vec<[f64; 3]>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Stats {
    clients: usize,
    sample_ns: u64,
    end_ns: u64,
    sampled_ns: u64,
    counted_from_ns: u64,
    pub(super) stages: Vec<StageStats>,
    loads: Vec<LoadStats>,
    resources: Vec<ResourceStats>,
    /// Busy time of each resource instance when the last bucket ended.
    sampled: Vec<u64>,
    /// The bucket of the series that `now` is in, and where it ends.
    bucket: usize,
    bucket_end_ns: u64,
    pub(super) events: u64,
    pub(super) parts: u64,
    pub(super) aborted: u64,
}

impl Stats {
    /// `sample_ns` is the length of a bucket of the series, `end_ns` the end of the run.
    pub(super) fn new(plan: &Plan, clients: usize, (sample_ns, end_ns): (u64, u64)) -> Stats {
        let stage = StageStats {
            waiting: Gauge::new(),
            serving: Gauge::new(),
            forced_ns: [0; CLIENTS],
            counted: [[0; CLIENTS]; 2],
            serving_over_time: OverTime::new(),
            waiting_over_time: OverTime::new(),
        };
        let resource = ResourceStats { counted: [0; CLIENTS], series: Vec::new() };
        Stats {
            clients,
            sample_ns,
            end_ns,
            sampled_ns: 0,
            counted_from_ns: 0,
            stages: vec![stage; plan.stages.len()],
            loads: vec![LoadStats::new(); plan.loads.len()],
            resources: vec![resource; plan.resources.len()],
            sampled: vec![0; plan.resource_instances as usize],
            bucket: 0,
            bucket_end_ns: sample_ns,
            events: 0,
            parts: 0,
            aborted: 0,
        }
    }

    /// A request was answered.
    pub(super) fn answered(&mut self, load: u32, latency_ns: u64, now_ns: u64) {
        // An answer in the last instant belongs to the last bucket.
        while now_ns >= self.bucket_end_ns && self.bucket_end_ns < self.end_ns {
            self.bucket += 1;
            self.bucket_end_ns += self.sample_ns;
        }
        let stats = &mut self.loads[load as usize];
        if stats.series.len() <= self.bucket {
            stats.series.resize(self.bucket + 1, 0);
        }
        stats.series[self.bucket] += 1;
        stats.answered += 1;
        stats.latency_ns += u128::from(latency_ns);
        stats.latency_ns_max = stats.latency_ns_max.max(latency_ns);
        stats.buckets[bucket_of(Nanos(latency_ns))] += 1;
    }

    /// A client gave an attempt up.
    pub(super) fn expired(&mut self, load: u32) {
        self.loads[load as usize].timeouts += 1;
    }

    /// A client gave a request up.
    pub(super) fn failed(&mut self, load: u32) {
        self.loads[load as usize].failed += 1;
    }

    /// A bucket of the series is full.
    pub(super) fn sample(&mut self, resources: &[ResourceInstance], now_ns: u64) {
        let span = (now_ns - self.sampled_ns).max(1) as f64;
        self.sampled_ns = now_ns;
        self.loads.iter_mut().for_each(LoadStats::sample);
        let mut sums = vec![[0.0, f64::INFINITY, 0.0, 0.0]; self.resources.len()];
        for (instance, sampled) in resources.iter().zip(&mut self.sampled) {
            let busy: u64 = instance.used.integrals(now_ns).iter().sum();
            let used = (busy - *sampled) as f64 / span / f64::from(instance.servers());
            *sampled = busy;
            let [sum, least, most, nodes] = &mut sums[instance.resource as usize];
            *sum += used;
            *least = least.min(used);
            *most = most.max(used);
            *nodes += 1.0;
        }
        for (stats, [sum, least, most, nodes]) in self.resources.iter_mut().zip(sums) {
            stats.series.push([sum / nodes, least, most]);
        }
        for stage in &mut self.stages {
            stage.serving_over_time.sample(stage.serving.integrals(now_ns), self.clients, span);
            stage.waiting_over_time.sample(stage.waiting.integrals(now_ns), self.clients, span);
        }
    }

    /// The warm-up is over: earlier counts are dropped.
    pub(super) fn count(&mut self, resources: &[ResourceInstance], now_ns: u64) {
        self.counted_from_ns = now_ns;
        for load in &mut self.loads {
            load.answered = 0;
            load.latency_ns = 0;
            load.latency_ns_max = 0;
            load.buckets.fill(0);
            load.sampled = (0, 0, Box::new([0; BUCKETS]));
            (load.timeouts, load.failed) = (0, 0);
        }
        self.aborted = 0;
        let busy = self.busy(resources, now_ns);
        for (resource, busy) in self.resources.iter_mut().zip(busy) {
            resource.counted = busy;
        }
        for stage in &mut self.stages {
            stage.forced_ns = [0; CLIENTS];
            stage.counted = [stage.waiting.integrals(now_ns), stage.serving.integrals(now_ns)];
        }
    }

    /// Busy time of each resource, all nodes together, by client, from the very start.
    fn busy(&self, resources: &[ResourceInstance], now_ns: u64) -> Vec<[u64; CLIENTS]> {
        let mut busy = vec![[0; CLIENTS]; self.resources.len()];
        for instance in resources {
            let sums = &mut busy[instance.resource as usize];
            for (sum, used) in sums.iter_mut().zip(instance.used.integrals(now_ns)) {
                *sum += used;
            }
        }
        busy
    }

    /// Everything, at the end.
    pub(super) fn finish(
        mut self,
        (tad, scenario, seed): (&Tad, &Scenario, u64),
        plan: &Plan,
        (slab, instances, caches): (&Slab, &[ResourceInstance], &[Lru]),
        now_ns: u64,
    ) -> Outcome {
        if now_ns > self.sampled_ns {
            self.sample(instances, now_ns); // The last bucket is shorter than the others.
        }
        let counted_ns = (now_ns - self.counted_from_ns).max(1);
        let counted_s = counted_ns as f64 / 1e9;
        let clients = scenario
            .clients
            .iter()
            .enumerate()
            .map(|(id, client)| self.client(id, &client.name, client.weight, plan, counted_s));
        let clients: Vec<ClientOutcome> = clients.collect();
        let resources = self.resources(tad, plan, self.busy(instances, now_ns), counted_ns);
        let stages = tad.stages.iter().zip(&self.stages);
        let stages = stages
            .map(|(stage, stats)| self.stage(&stage.name, stats, now_ns, counted_ns))
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
            caches: plan.caches.iter().map(|cache| cache_outcome(tad, cache, caches)).collect(),
        }
    }

    /// `used` is the busy time of each resource, from the very start.
    fn resources(
        &self,
        tad: &Tad,
        plan: &Plan,
        used: Vec<[u64; CLIENTS]>,
        counted_ns: u64,
    ) -> Vec<ResourceOutcome> {
        let resources = tad.resources.iter().zip(&self.resources).zip(&plan.resources).zip(used);
        resources
            .map(|(((resource, stats), planned), mut used)| {
                for (used, counted) in used.iter_mut().zip(stats.counted) {
                    *used -= counted;
                }
                let busy: u64 = used.iter().sum();
                let servers = f64::from(planned.nodes) * f64::from(resource.parallelism.max(1));
                let share = |part: &u64| *part as f64 / busy.max(1) as f64;
                ResourceOutcome {
                    name: resource.name.clone(),
                    node: tad.nodes[resource.node].name.clone(),
                    utilization: busy as f64 / counted_ns as f64 / servers,
                    shares: used[..self.clients].iter().map(share).collect(),
                    series: stats.series.clone(),
                }
            })
            .collect()
    }

    fn stage(&self, name: &str, stats: &StageStats, now_ns: u64, counted_ns: u64) -> StageOutcome {
        let mean = |gauge: &Gauge, from: &[u64; CLIENTS]| -> Vec<f64> {
            let settled = gauge.integrals(now_ns);
            settled[..self.clients]
                .iter()
                .zip(from)
                .map(|(now, from)| (now - from) as f64 / counted_ns as f64)
                .collect()
        };
        StageOutcome {
            name: name.to_owned(),
            waiting: mean(&stats.waiting, &stats.counted[0]),
            serving: mean(&stats.serving, &stats.counted[1]),
            serving_series: stats.serving_over_time.series.clone(),
            waiting_series: stats.waiting_over_time.series.clone(),
            forced_s: stats.forced_ns[..self.clients].iter().map(|ns| *ns as f64 / 1e9).collect(),
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
            for (at, (sum, count)) in series.iter_mut().zip(&stats.series).enumerate() {
                let from_ns = at as u64 * self.sample_ns;
                let span_ns = self.sample_ns.min(self.end_ns - from_ns).max(1);
                *sum += *count as f64 * 1e9 / span_ns as f64;
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
                latency_ms_series: stats.latency_series.clone(),
                timeouts: stats.timeouts,
                failed: stats.failed,
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

/// A cache, all its nodes together.
fn cache_outcome(tad: &Tad, cache: &CachePlan, caches: &[Lru]) -> CacheOutcome {
    let nodes = tad.nodes[cache.node].count.max(1);
    let own = &caches[cache.base as usize..(cache.base + nodes) as usize];
    CacheOutcome {
        name: cache.name.clone(),
        node: tad.nodes[cache.node].name.clone(),
        hits: own.iter().map(|lru| lru.hits).sum(),
        misses: own.iter().map(|lru| lru.misses).sum(),
    }
}
