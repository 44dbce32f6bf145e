//! Runs the arms in turn. Nothing here judges a number.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headworks_rig::gated::{Instance, Status};
use headworks_rig::machine::Load as MachineLoad;
use headworks_workload::db::DbError;
use headworks_workload::driver::{
    self, Progress as Told, Report, RunOptions as Driving, Stop, UserReport,
};

use super::client::Reader;
use super::site::{ACCOUNTS, Site};
use super::{ARMS, AROUND_S, Arm, EXPERIMENT, Guests, ID, ROUNDS, WARM_UP_S, WINDOW_S};
use crate::experiment::RunOptions;
use crate::interrupt;
use crate::progress::Progress;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{self, Rounds};
use crate::work::Work;
use headworks_policy::metrics::percentile;

/// Connections of the small and of the large account, and of each of three.
const SMALL: usize = 4;
const LARGE: usize = 200;
const EACH: usize = 15;

/// Permits for the two accounts: one for each core, since each request computes all the time. For
/// the three accounts: ten, as PgBouncer's server connections in the report.
const PERMITS: u32 = 2;
const PERMITS_FOR_THREE: u32 = 10;

/// The small account's clients pause this long on average, so that they need a fraction of the
/// machine.
const PAUSE: Duration = Duration::from_millis(15);

/// A class for each account. Its weight is for the whole class, of permits and processor time.
fn config(permits: u32) -> String {
    let mut text = format!("[gate]\nparallelism = {permits}\ncpu_weights = true\n");
    for account in ACCOUNTS {
        text += &format!(
            "[[class]]\nname = \"{account}\"\nweight = 1.0\nweight_of = \"class\"\n\
             [[rule]]\naccount = \"{account}\"\nclass = \"{account}\"\n"
        );
    }
    text
}

/// Runs everything.
pub(super) fn collect(options: &RunOptions) -> Result<Record> {
    let headworks = options.headworks()?;
    let work = Work::new(options, 2 << 30)?;
    let (warm_up_s, planned_s, rounds) =
        if options.quick { (1, 3, 1) } else { (WARM_UP_S, WINDOW_S, ROUNDS) };
    let window_s = options.window_s.unwrap_or(planned_s).max(1);
    let rounds = options.repeat.unwrap_or(rounds).max(1);
    let run_s = warm_up_s + window_s + AROUND_S;
    let expected = Duration::from_secs(run_s * (ARMS.len() * rounds) as u64);
    let mut progress = Progress::new(&format!("{ID}: {}", EXPERIMENT.title), expected);
    let how = Driving {
        warm_up: Duration::from_secs(warm_up_s),
        window: Duration::from_secs(window_s),
        trace: true,
        ..Driving::default()
    };
    let server = |arm: &Arm| if arm.gated { config(permits(arm)) } else { "as it is".to_owned() };
    let arms = ARMS.iter().map(|arm| rounds::Arm::new(arm.label, server(arm), &[0.0]));
    let seconds = (warm_up_s as f64, window_s as f64);
    Rounds::begin(&EXPERIMENT, options).collect(rounds, seconds, "arm", arms.collect(), |task| {
        progress.step(task.title, Duration::from_secs(run_s));
        let arm = ARMS
            .iter()
            .find(|arm| arm.label == task.arm)
            .context("the plan has no such variant")?;
        let seed = options.seed.wrapping_add(task.round);
        one(arm, &how, seed, &headworks, &work, &progress)
    })
}

fn permits(arm: &Arm) -> u32 {
    if arm.guests == Guests::Three { PERMITS_FOR_THREE } else { PERMITS }
}

/// Account of each connection.
fn account(guests: Guests, number: usize) -> usize {
    match guests {
        Guests::Alone | Guests::Beside => usize::from(number >= SMALL),
        Guests::Three => 2 + number / EACH,
    }
}

fn one(
    arm: &Arm,
    how: &Driving,
    seed: u64,
    headworks: &std::path::Path,
    work: &Work,
    progress: &Progress,
) -> Result<Run> {
    let gate = Instance::shared(headworks, format!("neighbours-{}", std::process::id()));
    let prefix = if arm.gated {
        gate.prefix_with_config(&work.path().join("gate.toml"), &config(permits(arm)), &[])?
    } else {
        Vec::new()
    };
    let site = Site::start(arm.kind, &prefix, work.path())?;
    let users = match arm.guests {
        Guests::Alone => SMALL,
        Guests::Beside => SMALL + LARGE,
        Guests::Three => 3 * EACH,
    };
    let how = Driving { users, ..*how };
    let databases =
        ACCOUNTS.map(|account| site.database(account)).into_iter().collect::<Result<Vec<_>>>()?;
    let connect = |number: usize| -> Result<Reader, DbError> {
        let account = account(arm.guests, number);
        let pause = if account == 0 { PAUSE } else { Duration::ZERO };
        Reader::connect(&databases[account], seed, number, pause)
    };
    let stop = Stop::default();
    let report = driver::run(&how, &["sum"], &connect, &stop, &mut |_: &Told| {
        progress.tick();
        if interrupt::check().is_err() {
            stop.stop();
        }
    });
    interrupt::check()?;
    let report =
        report.with_context(|| format!("the server's log ends with:\n{}", site.log_tail()))?;
    ensure!(report.first_failure.is_none(), "a request failed: {:?}", report.first_failure);
    let mut run = measure(arm.guests, &report);
    if arm.gated {
        let Status(status) = gate.enforcing_status()?;
        let active = status["cgroup"]["state"] == "active";
        run.numbers.insert("cpu_weights".to_owned(), f64::from(u8::from(active)));
    }
    Ok(run)
}

/// Numbers: `all_per_s`; of a small account `small_per_s`, `small_p50_ms`, `small_p99_ms`; of three
/// `share_ratio`.
fn measure(guests: Guests, report: &Report) -> Run {
    let mut numbers = BTreeMap::from([("all_per_s".to_owned(), report.per_s)]);
    let window_s = report.options.window.as_secs_f64();
    let count = |users: &[UserReport]| users.iter().map(|user| user.count).sum::<u64>() as f64;
    if guests == Guests::Three {
        let shares: Vec<f64> = report.users.chunks(EACH).map(count).collect();
        let most = shares.iter().copied().fold(0.0, f64::max);
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        numbers.insert("share_ratio".to_owned(), most / least);
    } else {
        let small = &report.users[..SMALL.min(report.users.len())];
        numbers.insert("small_per_s".to_owned(), count(small) / window_s);
        let answers = small.iter().flat_map(|user| &user.trace);
        let mut latencies: Vec<u32> = answers.map(|answer| answer.latency_us).collect();
        latencies.sort_unstable();
        for (key, quantile) in [("small_p50_ms", 0.5), ("small_p99_ms", 0.99)] {
            if let Some(us) = percentile(&latencies, quantile) {
                numbers.insert(key.to_owned(), f64::from(us) / 1000.0);
            }
        }
    }
    Run { numbers, bucket_s: 1.0, load: Some(MachineLoad::at_rest()), ..Run::default() }
}
