//! `headworks tad fix`

use super::input::{self, BadInput, quoted};
use super::progress::Progress;
use super::results::ms;
use crate::cli::Fix;
use anyhow::Result;
use headworks_console::{Column, Ink, Table, rate};
use headworks_tad::fix::{self, Costs, Found, Goal, Measured, Options, SetReport, Verdict, Watch};
use std::fmt::Write;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Exit code after Ctrl-C, as a shell has it.
const INTERRUPTED: u8 = 130;

/// What is to be known about queues without a policy.
const FIFO: &str = "every queue serves first in, first out, and under FIFO no queue isolates one client from another. Remedies that add a queue then help no client; put `policy = \"drf\"` into the scenario, or allow the remedy set-policy";

/// `headworks tad fix`
pub fn fix(args: &Fix) -> Result<ExitCode> {
    let tad = input::system(&args.system)?;
    let scenarios =
        args.scenario.iter().map(|name| input::scenario(name, &tad)).collect::<Result<Vec<_>>>()?;
    let goals = args
        .goal
        .iter()
        .map(|text| Goal::parse(text).map_err(BadInput::error))
        .collect::<Result<Vec<_>>>()?;
    let mut costs = Costs::default();
    for text in &args.cost {
        costs.set(text).map_err(|error| BadInput::error(format!("--cost: {error}")))?;
    }
    let options = Options {
        seeds: args.seeds,
        costs,
        slack: args.slack,
        limit: args.limit,
        duration_ns: args.duration.saturating_mul(1_000_000_000),
        own: args.own,
        workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    };
    for scenario in scenarios.iter().filter(|scenario| fix::without_policy(&tad, scenario)) {
        eprintln!("headworks: note: {}: {FIFO}", scenario.name);
    }
    let looks_on = LooksOn { progress: Progress::without_end(), holding: AtomicUsize::new(0) };
    watch_for_interrupt();
    let found = fix::search(&tad, &scenarios, &goals, &options, &looks_on);
    drop(looks_on);
    let found = found.map_err(BadInput::error)?;
    let again = found
        .best()
        .filter(|_| !found.stopped)
        .map(|best| fix::recheck(&tad, &scenarios, &goals, &options, (best, OTHER_SEEDS)));
    let ink = Ink { color: std::io::stdout().is_terminal() };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&Record { found: &found, again: &again })?);
    } else {
        let clients: Vec<&str> =
            scenarios[0].clients.iter().map(|client| client.name.as_str()).collect();
        print!("{}", text(&found, args, &clients, ink));
        if let Some(again) = &again {
            println!("{}", promise(again, args.seeds));
        }
    }
    Ok(match found.best() {
        _ if found.stopped => ExitCode::from(INTERRUPTED),
        Some(_) => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    })
}

/// The first seed of the runs that check an answer. The search uses those from 1 on.
const OTHER_SEEDS: u64 = 1_000_001;

/// What `--json` prints.
#[derive(serde::Serialize)]
struct Record<'a> {
    #[serde(flatten)]
    found: &'a Found,
    /// The best set with seeds that the search did not use.
    again: &'a Option<Verdict>,
}

/// Whether the answer keeps its promise with other seeds.
fn promise(again: &Verdict, seeds: u32) -> String {
    match again {
        Verdict::Holds(measured) => format!(
            "with {seeds} other seeds it holds as well, in every interval of {} runs",
            measured.runs
        ),
        Verdict::Fails { workload, seed, miss, .. } => format!(
            "with other seeds it does not hold: {} ({workload}, seed {seed}); --seeds {} asks for more",
            miss.seen,
            seeds.saturating_mul(4)
        ),
        Verdict::Beaten { .. } => String::new(),
        Verdict::Impossible { why } => format!("with other seeds it cannot be simulated: {why}"),
    }
}

/// Shows the progress of the search, and ends it on Ctrl-C.
struct LooksOn {
    progress: Progress,
    holding: AtomicUsize,
}

impl Watch for LooksOn {
    fn go_on(&self, settled: usize, cost: u32) -> bool {
        let holding = self.holding.load(Ordering::Relaxed);
        let hold = if holding == 1 { "holds" } else { "hold" };
        self.progress.goes_on(&format!(
            "{settled} sets tried, {holding} {hold}, now those of cost {cost} (Ctrl-C ends it)"
        ));
        !INTERRUPT.load(Ordering::Relaxed)
    }

    fn settled(&self, set: &SetReport) {
        if matches!(set.verdict, Verdict::Holds(_)) {
            self.holding.fetch_add(1, Ordering::Relaxed);
        }
        if set.names.is_empty() {
            self.progress.say(format!("as it is: {}", fate(set)));
        } else if matches!(set.verdict, Verdict::Holds(_)) {
            self.progress.say(format!("holds: {}", named(set)));
        }
    }
}

/// Ctrl-C was pressed.
static INTERRUPT: AtomicBool = AtomicBool::new(false);

extern "C" fn interrupted(_signal: libc::c_int) {
    INTERRUPT.store(true, Ordering::Relaxed);
}

/// The first Ctrl-C ends the search between two runs; the second ends the command at once.
fn watch_for_interrupt() {
    // SAFETY: all zero bytes are a valid sigaction. The handler stores to an atomic, which is
    // allowed in a signal handler.
    unsafe {
        let mut was: libc::sigaction = std::mem::zeroed();
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = interrupted as *const () as usize;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, std::ptr::null(), &raw mut was);
        // A shell's background job ignores it, which is kept.
        if was.sa_sigaction != libc::SIG_IGN {
            libc::sigaction(libc::SIGINT, &raw const action, std::ptr::null_mut());
        }
    }
}

fn text(found: &Found, args: &Fix, clients: &[&str], ink: Ink) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}: {} with {} workloads and {} seed{}",
        ink.bold(&found.system),
        ink.bold(&found.goals.join(", ")),
        found.workloads.len(),
        found.seeds,
        if found.seeds == 1 { "" } else { "s" }
    );
    if let Some(first) = found.tried.first() {
        let _ = writeln!(out, "as it is: {}", fate(first));
    }
    let _ = writeln!(
        out,
        "tried {} sets out of {} choices ({} more do not fit together or change nothing new)",
        found.tried.len(),
        found.choices,
        found.skipped
    );
    if found.stopped {
        out += "stopped by Ctrl-C: cheaper or better sets may not have been tried\n";
    } else if found.limited {
        let _ = writeln!(
            out,
            "stopped at the limit of {} sets: --limit {} goes on",
            args.limit,
            args.limit.saturating_mul(4)
        );
    }
    let Some(best) = found.best() else {
        out += &closest(found, args);
        return out;
    };
    let _ = writeln!(out, "\n{}", ink.bold("The cheapest that holds"));
    if best.names.is_empty() {
        out += "  nothing: the goals hold as it is\n";
    } else {
        let _ = writeln!(out, "  {}", named(best));
        for remedy in &best.remedies {
            let _ = writeln!(out, "      {remedy}");
        }
        let _ = writeln!(out, "  see it:   {}", command(args, best));
        let _ = writeln!(out, "  as it is: {}", simulate(args));
    }
    let front: Vec<&SetReport> = found.holding().filter(|set| set.front).collect();
    let title = format!(
        "All that hold and that nothing beats in every respect, with {} as written",
        args.scenario.join(", ")
    );
    let _ = writeln!(out, "\n{}", ink.bold(&title));
    out += &table(found, &front, clients).render(headworks_console::terminal_width(), ink);
    for (at, set) in front.iter().enumerate().filter(|(_, set)| !set.names.is_empty()) {
        let _ = writeln!(out, "  {} see it: {}", at + 1, command(args, set));
    }
    let beaten = found.tried.iter().filter(|set| match set.verdict {
        Verdict::Holds(_) => !set.front,
        Verdict::Beaten { .. } => true,
        Verdict::Fails { .. } | Verdict::Impossible { .. } => false,
    });
    match beaten.count() {
        0 => {}
        1 => out += "1 more reaches the goals and is no better: --json has it\n",
        more => {
            let _ = writeln!(out, "{more} more reach the goals and are no better: --json has them");
        }
    }
    out
}

fn named(set: &SetReport) -> String {
    format!("{} (cost {})", set.names.join(", "), set.cost)
}

/// The command that simulates a set.
fn command(args: &Fix, set: &SetReport) -> String {
    let remedies = match &set.maat {
        Some(letters) => format!(" --maat {}", quoted(letters)),
        None => set.remedies.iter().map(|each| format!(" --remedy {}", quoted(each))).collect(),
    };
    simulate(args) + &remedies
}

/// The command that simulates the unchanged system.
fn simulate(args: &Fix) -> String {
    let scenario = args.scenario.first().map_or("…", String::as_str);
    format!("headworks tad simulate {} --scenario {}", quoted(&args.system), quoted(scenario))
}

fn table(found: &Found, front: &[&SetReport], clients: &[&str]) -> Table {
    let mut table = Table::new(&[
        Column::left(""),
        Column::right("COST"),
        Column::right("REQ/S"),
        Column::left("OF THAT"),
        Column::right("WORST"),
        Column::right("P99"),
        Column::left("REMEDIES"),
    ]);
    let mut row = |number: String, cost: u32, measured: &Measured, remedies: String| {
        let each = clients.iter().zip(&measured.clients_per_s);
        let each: Vec<String> =
            each.map(|(client, per_s)| format!("{client} {}", rate(*per_s))).collect();
        table.row(vec![
            number,
            cost.to_string(),
            rate(measured.throughput_per_s),
            each.join(", "),
            rate(measured.worst_per_s),
            ms(measured.latency_ms_p99),
            remedies,
        ]);
    };
    if let Some(as_it_is) = &found.as_it_is {
        row(String::new(), 0, as_it_is, "(as it is)".to_owned());
    }
    for (at, set) in front.iter().enumerate() {
        let Verdict::Holds(measured) = &set.verdict else { continue };
        if !set.names.is_empty() {
            row((at + 1).to_string(), set.cost, measured, set.names.join(", "));
        }
    }
    table
}

/// If no set holds: the set that came the furthest. The unchanged system was reported already.
fn closest(found: &Found, args: &Fix) -> String {
    let mut out =
        "\nnothing that was tried reaches the goals; these came the furthest\n".to_owned();
    let passed = |set: &SetReport| match set.verdict {
        Verdict::Fails { passed, .. } => passed,
        _ => 0,
    };
    let mut sets: Vec<&SetReport> =
        found.tried.iter().filter(|set| !set.names.is_empty()).collect();
    sets.sort_by_key(|set| (std::cmp::Reverse(passed(set)), set.cost));
    for set in sets.into_iter().take(5) {
        let _ = writeln!(out, "  {}: {}", named(set), fate(set));
        let _ = writeln!(out, "    see it: {}", command(args, set));
    }
    out += "a weaker goal, a higher --limit, or remedies in the system's file may help\n";
    out
}

fn fate(set: &SetReport) -> String {
    match &set.verdict {
        Verdict::Holds(_) => "the goals hold".to_owned(),
        Verdict::Fails { workload, seed, passed, miss } => {
            let run = passed + 1;
            format!("misses {}: {} (run {run}: {workload}, seed {seed})", miss.goal, miss.seen)
        }
        Verdict::Beaten { by } => format!("the goals hold, as with {} for less", by.join(", ")),
        Verdict::Impossible { why } => format!("cannot be simulated: {why}"),
    }
}
