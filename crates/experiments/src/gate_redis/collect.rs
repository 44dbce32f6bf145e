//! Running both servers in turn and writing down what happened. Nothing here judges a number.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headworks_policy::metrics::unfairness;
use headworks_rig::gated::Instance;
use headworks_rig::machine::Load;
use headworks_rig::{LoopKind, LoopServer, find_program};
use headworks_workload::redis::{self, Group, Served, Time};

use super::{
    ALONE, AS_IS, BENCHMARK, BESIDE, GATE, ID, MANY, NOISY, P99, PIPELINES, SMALL, UNFAIRNESS,
};
use crate::experiment::RunOptions;
use crate::interrupt;
use crate::progress::Progress;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{Arm, Rounds};
use crate::work::Work;

/// P of the gate if none is asked for: sessions admitted by one return of `epoll_wait`. With 4, the
/// returns cost a quarter of the throughput of pipelines.
const PARALLELISM: u32 = 16;

/// P while there is a small account beside a large one: its requests wait for that many turns.
const PARALLELISM_FOR_TWO: u32 = 2;

/// Weights belong to the accounts, however many connections each has.
const CLASSES: &str = "[[class]]\nname = \"small\"\nweight_of = \"class\"\n[[class]]\nname = \"noisy\"\n\
     weight_of = \"class\"\n[[rule]]\naccount = \"small\"\nclass = \"small\"\n[[rule]]\naccount = \"noisy\"\nclass = \"noisy\"\n";

/// The small account's clients pause this long on average, so that they need a fraction of the
/// server.
const PAUSE: Duration = Duration::from_millis(2);

struct Bench<'a> {
    options: &'a RunOptions,
    gate: Instance,
    benchmark: PathBuf,
    work: Work,
    time: Time,
    progress: Progress,
}

/// Runs the whole experiment.
pub(super) fn collect(options: &RunOptions) -> Result<Record> {
    let name = format!("gate-redis-{}", std::process::id());
    let gate = Instance::shared(options.headworks()?, name);
    let benchmark = find_program("redis-benchmark")
        .context("redis-benchmark is not installed (apt-get install redis-tools)")?;
    let (rounds, window_s) = if options.quick { (1, 2) } else { (5, 10) };
    let rounds = options.repeat.unwrap_or(rounds).max(1);
    let window_s = options.window_s.unwrap_or(window_s).max(1);
    let time = Time { warm_up: Duration::from_secs(1), window: Duration::from_secs(window_s) };
    // Two loads of our own, redis-benchmark for about as long, and the small account alone.
    let run = 4 * (time.warm_up + time.window);
    let expected = run * (rounds * 2 * PIPELINES.len()) as u32;
    let schedule = Rounds::begin(&super::EXPERIMENT, options);
    let mut bench = Bench {
        options,
        gate,
        benchmark,
        work: Work::new(options, 1 << 20)?,
        time,
        progress: Progress::new(ID, expected),
    };
    let arms = [AS_IS, GATE].map(|arm| Arm::new(arm, bench.describe(arm), &PIPELINES));
    let seconds = (time.warm_up.as_secs_f64(), window_s as f64);
    let sweep = "commands under way for each connection";
    schedule.collect(rounds, seconds, sweep, arms.into(), |task| {
        bench.progress.step(task.title, run);
        bench.run(task.arm, task.at as usize, task.round)
    })
}

impl Bench<'_> {
    fn config(&self) -> String {
        let parallelism = self.options.parallelism.unwrap_or(PARALLELISM);
        format!(
            "# parallelism = {PARALLELISM_FOR_TWO} while there are two accounts\n\
             [gate]\nparallelism = {parallelism}\n{CLASSES}"
        )
    }

    fn describe(&self, arm: &str) -> String {
        if arm == GATE { self.config() } else { "redis-server without persistence".to_owned() }
    }

    fn server(&self, arm: &str) -> Result<LoopServer> {
        let mut builder = LoopServer::builder(LoopKind::Redis)
            .options(["--maxclients", "4000", "--tcp-backlog", "4096"])
            .remove_when_orphaned(self.work.path());
        if arm == GATE {
            let path = self.work.path().join("gate.toml");
            builder = builder.prefix(self.gate.prefix_with_config(&path, &self.config(), &[])?);
        }
        let server = builder.start()?;
        server.ensure_gated(arm == GATE)?;
        Ok(server)
    }

    fn run(&mut self, arm: &str, pipeline: usize, round: u64) -> Result<Run> {
        let server = self.server(arm)?;
        let mut run = Run { bucket_s: 1.0, ..Run::default() };
        let mut note = |key: &str, value: f64| run.numbers.insert(key.to_owned(), value);
        for account in ["small", "noisy"] {
            let words = ["ACL", "SETUSER", account, "on", "nopass", "+@all", "~*"];
            let done = Command::new("redis-cli")
                .args(["-p", &server.port().to_string()])
                .args(words)
                .env_remove("LD_PRELOAD")
                .output()?;
            ensure!(done.stdout.starts_with(b"OK"), "redis-cli failed: {done:?}");
        }
        note(BENCHMARK, self.benchmark(&server, pipeline)?);
        let all = self.load(&server, &[group(None, MANY, pipeline)], round)?;
        let counts: Vec<f64> = all[0].commands.iter().map(|&count| count as f64).collect();
        note("throughput_per_s", counts.iter().sum::<f64>() / self.time.window.as_secs_f64());
        note(UNFAIRNESS, unfairness(counts).unwrap_or(f64::NAN));
        note("p50_ms", quantile_ms(&all[0], 0.5));
        note(P99, quantile_ms(&all[0], 0.99));
        if arm == GATE {
            let p = PARALLELISM_FOR_TWO.to_string();
            self.gate.order(&["set", "--parallelism", &p])?;
        }
        let small = Group { pause: PAUSE, ..group(Some("small"), SMALL, 1) };
        let alone = self.load(&server, std::slice::from_ref(&small), round)?;
        note(ALONE, quantile_ms(&alone[0], 0.99));
        let beside = self.load(&server, &[small, group(Some("noisy"), NOISY, pipeline)], round)?;
        note(BESIDE, quantile_ms(&beside[0], 0.99));
        note("noisy_p99_ms", quantile_ms(&beside[1], 0.99));
        let sum = |served: &Served| served.commands.iter().sum::<u64>() as f64;
        note("noisy_per_s", sum(&beside[1]) / self.time.window.as_secs_f64());
        note("small_share", sum(&beside[0]) / (sum(&beside[0]) + sum(&beside[1])));
        run.load = Some(Load::at_rest());
        Ok(run)
    }

    /// Commands per second that redis-benchmark measures: the mean of SET and GET.
    fn benchmark(&mut self, server: &LoopServer, pipeline: usize) -> Result<f64> {
        // About as many as a window takes on a machine of today.
        let each = 50_000.0 * self.time.window.as_secs_f64() * (pipeline as f64).sqrt();
        let output = Command::new(&self.benchmark)
            .args(["-p", &server.port().to_string(), "-c", &MANY.to_string()])
            .args(["-P", &pipeline.to_string(), "-n", &(each as u64).to_string()])
            .args(["-t", "set,get", "-r", "100000", "--csv"])
            .env_remove("LD_PRELOAD")
            .output()?;
        self.progress.tick();
        interrupt::check()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let rate = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("\"{name}\"")))?;
            line.split(',').nth(1)?.trim_matches('"').parse::<f64>().ok()
        };
        let rates = rate("SET").zip(rate("GET"));
        rates
            .map(|(set, get)| (set + get) / 2.0)
            .with_context(|| format!("redis-benchmark printed no result: {output:?}"))
    }

    fn load(&mut self, server: &LoopServer, groups: &[Group], round: u64) -> Result<Vec<Served>> {
        let seed = self.options.seed.wrapping_add(round);
        let served = redis::run(server.address(), groups, self.time, seed, || {
            self.progress.tick();
            interrupt::check().is_ok()
        });
        interrupt::check()?;
        served.with_context(|| format!("the server's log ends with:\n{}", server.log()))
    }
}

fn group(account: Option<&str>, connections: usize, pipeline: usize) -> Group {
    let account = account.map(str::to_owned);
    Group { account, connections, pipeline, pause: Duration::ZERO }
}

fn quantile_ms(served: &Served, quantile: f64) -> f64 {
    served.latency_us.value_at_quantile(quantile) as f64 / 1_000.0
}
