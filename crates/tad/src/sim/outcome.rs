//! Results of a simulation.

use serde::Serialize;

/// Results of one run. Rates and means cover the time after the warm-up; series have one value for
/// each bucket of `sample_ns` from the start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// System.
    pub system: String,
    /// Scenario.
    pub scenario: String,
    /// Seed.
    pub seed: u64,
    /// Simulated time after the warm-up, in seconds.
    pub counted_s: f64,
    /// Length of a bucket of the series, in seconds.
    pub sample_s: f64,
    /// Events that were simulated.
    pub events: u64,
    /// Parts of requests that were done, from the start.
    pub parts: u64,
    /// Most requests in flight at a time.
    pub in_flight_max: u32,
    /// Requests that were started on speculation and put back, after the warm-up.
    pub aborted: u64,
    /// By client.
    pub clients: Vec<ClientOutcome>,
    /// By resource of a kind of node.
    pub resources: Vec<ResourceOutcome>,
    /// By stage.
    pub stages: Vec<StageOutcome>,
    /// By cache of a kind of node.
    pub caches: Vec<CacheOutcome>,
}

/// Results of a cache, all nodes together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheOutcome {
    /// Name.
    pub name: String,
    /// Kind of node.
    pub node: String,
    /// Look-ups that found their key.
    pub hits: u64,
    /// Look-ups that did not. Those on speculation, which come again, are not counted.
    pub misses: u64,
}

/// A client's results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientOutcome {
    /// Name.
    pub name: String,
    /// Weight.
    pub weight: f64,
    /// Requests answered, a second.
    pub throughput_per_s: f64,
    /// By kind of load.
    pub loads: Vec<LoadOutcome>,
    /// Requests answered a second, over time.
    pub series_per_s: Vec<f64>,
}

/// Results of one of a client's loads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadOutcome {
    /// Name.
    pub name: String,
    /// Requests answered.
    pub answered: u64,
    /// Requests answered, a second.
    pub throughput_per_s: f64,
    /// Mean latency.
    pub latency_ms_mean: f64,
    /// Median, within 12.5 %, as the other two.
    pub latency_ms_p50: f64,
    /// 95th percentile.
    pub latency_ms_p95: f64,
    /// 99th percentile.
    pub latency_ms_p99: f64,
    /// Largest.
    pub latency_ms_max: f64,
    /// Mean and 99th percentile in each bucket of the series; nothing where nothing was answered.
    pub latency_ms_series: Vec<Option<[f64; 2]>>,
    /// Attempts that its clients gave up, after the warm-up.
    pub timeouts: u64,
    /// Requests that they gave up.
    pub failed: u64,
}

/// Use of a resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResourceOutcome {
    /// Name.
    pub name: String,
    /// Kind of node.
    pub node: String,
    /// Part of the time for which it was busy, mean over nodes.
    pub utilization: f64,
    /// Part of the busy time that each client had.
    pub shares: Vec<f64>,
    /// Utilization over time: mean over nodes, lowest node, highest node.
    pub series: Vec<[f64; 3]>,
}

/// Results of a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageOutcome {
    /// Name.
    pub name: String,
    /// Mean number of requests of each client that waited in its queues, all nodes together.
    pub waiting: Vec<f64>,
    /// Mean number of its threads that each client had, working or blocked, all nodes together.
    pub serving: Vec<f64>,
    /// The latter over time.
    pub serving_series: Vec<Vec<f64>>,
    /// Those that waited, over time.
    pub waiting_series: Vec<Vec<f64>>,
    /// Forced work (Fig. 4.4): work given to each client because no other waited there. It is a
    /// part of the time of all its nodes' resources.
    pub forced_s: Vec<f64>,
}

impl Outcome {
    /// The client of a name.
    pub fn client(&self, name: &str) -> Option<&ClientOutcome> {
        self.clients.iter().find(|client| client.name == name)
    }

    /// The resource of a name on a kind of node.
    pub fn resource(&self, node: &str, name: &str) -> Option<&ResourceOutcome> {
        self.resources.iter().find(|r| r.node == node && r.name == name)
    }

    /// The stage of a name.
    pub fn stage(&self, name: &str) -> Option<&StageOutcome> {
        self.stages.iter().find(|stage| stage.name == name)
    }

    /// Requests a second of a client; zero if there is none of that name.
    pub fn throughput(&self, client: &str) -> f64 {
        self.client(client).map_or(0.0, |client| client.throughput_per_s)
    }
}

impl ClientOutcome {
    /// The load of a name.
    pub fn load(&self, name: &str) -> Option<&LoadOutcome> {
        self.loads.iter().find(|load| load.name == name)
    }
}
