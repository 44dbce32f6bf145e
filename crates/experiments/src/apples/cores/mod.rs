//! What the gate would do on machines with more cores than this one: a simulation, and nothing but
//! that.

mod model;
mod simulate;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use headworks_rig::machine::Load as MachineLoad;

use crate::experiment::{Experiment, Outcome, RunOptions, Steps};
use crate::html::{escape, table};
use crate::interrupt;
use crate::progress::Progress;
use crate::record::unix_now_s;
use crate::sweep::analyse::significant;
use crate::sweep::panel::{Best, Panel};
use crate::sweep::record::{ArmRecord, Point, Record, Run};
use crate::sweep::{self, Claim, Presentation};
use crate::table::align;
use headworks_policy::metrics::median;
use headworks_policy::random::Random;
use model::{Database, MEASURED};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "apples-cores",
    title: "Simulated: the best P and the gain on 2, 16 and 64 cores",
    paper: "AppleS",
    figure: "sections 4.3 and 5.1",
    expected_s: 60,
    expected_quick_s: 10,
    needs: &[],
    bench: &Steps { collect, report },
};

/// Simulated databases of a full and of a quick run.
const SEEDS: (usize, usize) = (1000, 100);

const USERS: [u32; 2] = [256, 512];

/// Label of each machine, the one of its searches, and its cores.
const MACHINES: [(&str, &str, f64); 3] = [
    ("2 cores", "2 cores, search", 2.0),
    ("16 cores", "16 cores, search", 16.0),
    ("64 cores", "64 cores, search", 64.0),
];

/// P of the curves that are kept.
const POINTS: [u32; 9] = [2, 4, 8, 16, 32, 64, 128, 256, 512];

/// Another P to begin with than the daemon's: one that holds users on every machine.
const LOW_START: u32 = 16;

/// Of a curve: throughput relative to that of the best P.
const SHARE: &str = "throughput_share_percent";

const CLAIMS: &[Claim] = &[
    Claim::new("on two cores the typical simulated database is near the measured one")
        .paper("–")
        .ours("largest distance of throughput from that of apples-matching, relative", |_| {
            let typical = Database::typical(2.0);
            let distance =
                |(p, measured): (u32, f64)| (typical.throughput_per_s(p) / measured - 1.0).abs();
            MEASURED.into_iter().map(distance).fold(0.0, f64::max)
        })
        .at_most(0.05)
        .note("fitted to it; nothing was measured on more cores"),
    Claim::new("more cores want a larger P")
        .paper("P = 16 to 20 on 16 cores (section 3.3)")
        .ours("best P of 64 cores / of 2", |seed| {
            let p = |arm| seed.get(arm, 512.0, "optimum_p");
            p(MACHINES[2].1) / p(MACHINES[0].1)
        })
        .at_least(4.0),
    Claim::new("2 cores, 256 users: the gain over everybody inside")
        .paper("+9.8 % to +28.1 % on 16 cores (Figure 9)")
        .ours("throughput with the best P / with everybody inside", |seed| {
            seed.get(MACHINES[0].1, 256.0, "gain")
        })
        .at_least(1.10),
    Claim::new("16 cores, 512 users: the gain over everybody inside")
        .paper("+9.8 % to +28.1 % on 16 cores (Figure 9)")
        .ours("throughput with the best P / with everybody inside", |seed| {
            seed.get(MACHINES[1].1, 512.0, "gain")
        })
        .at_least(1.10)
        .note("depends on how long latches are held, which two cores do not show"),
    Claim::new("64 cores, 512 users: the gain over everybody inside")
        .paper("not measured")
        .ours("throughput with the best P / with everybody inside", |seed| {
            seed.get(MACHINES[2].1, 512.0, "gain")
        })
        .at_least(1.10)
        .note("depends on how long latches are held, which two cores do not show"),
    Claim::new("the P that is found has nearly the largest throughput on every machine")
        .paper("λ_max error 3.58 % on average for MySQL (section 4.3.1)")
        .ours(
            "relative distance from the best, mean of all machines and numbers of users",
            |seed| {
                let errors = searches().map(|(arm, at)| seed.get(arm, at, "error"));
                errors.sum::<f64>() / searches().count() as f64
            },
        )
        .at_most(0.036),
    Claim::new("so has the one that is found from P = 16")
        .paper("the same")
        .ours("the same", |seed| {
            let errors = searches().map(|(arm, at)| seed.get(arm, at, "error_from_16"));
            errors.sum::<f64>() / searches().count() as f64
        })
        .at_most(0.036),
    Claim::new("it is found within a minute on every machine")
        .paper("60 s of sampling (section 4.3.1)")
        .ours("s until the mean of ten seconds stays at 0.97 of the best, longest of all", |seed| {
            let times = searches().map(|(arm, at)| seed.get(arm, at, "settling_s"));
            times.fold(0.0, f64::max)
        })
        .at_most(60.0)
        .note(STEEP),
    Claim::new("and from P = 16")
        .paper("the same")
        .ours("the same", |seed| {
            let times = searches().map(|(arm, at)| seed.get(arm, at, "settling_s_from_16"));
            times.fold(0.0, f64::max)
        })
        .at_most(60.0)
        .note(STEEP),
];

/// What to keep in mind of how long searches take.
const STEEP: &str = "on 64 cores a quarter of the databases fall off so steeply beyond their best P that the search stops \
                     a step below it, at 0.96 of the best (median)";

/// Arm and point of every search.
fn searches() -> impl Iterator<Item = (&'static str, f64)> {
    MACHINES.iter().flat_map(|machine| USERS.map(|users| (machine.1, f64::from(users))))
}

fn panels() -> Vec<Panel> {
    let bars = |title: &str, unit: &str, keys: &[(&str, &str, f64)]| {
        let all = MACHINES.iter().flat_map(|machine| keys.iter().map(move |key| (machine, key)));
        all.fold(Panel::bars(title, unit), |panel, (machine, (label, key, users))| {
            panel.bar(machine.0, label, machine.1, *users, key)
        })
    };
    let users = |key| [("256 users", key, 256.0), ("512 users", key, 512.0)];
    let curve = MACHINES
        .iter()
        .fold(Panel::heat("Throughput at P, % of the best P", Best::High), |panel, machine| {
            panel.line(machine.0, machine.0, SHARE)
        });
    vec![
        curve,
        bars("Best P", "", &users("optimum_p")),
        bars("Gain of the best P over everybody inside", "x", &users("gain")),
        bars(
            "Until P has settled, 512 users",
            "s",
            &[
                ("from the open gate", "settling_s", 512.0),
                ("from P = 16", "settling_s_from_16", 512.0),
            ],
        ),
        bars(
            "λ_max error, 512 users",
            "",
            &[
                ("from the open gate", "error", 512.0),
                ("from P = 16", "error_from_16", 512.0),
                ("the model alone", "model_error", 512.0),
            ],
        ),
        bars("Slowest second of the search", "of the best", &users("least_second")),
    ]
}

fn collect(options: &RunOptions) -> Result<Record> {
    let seeds = options.repeat.unwrap_or(if options.quick { SEEDS.1 } else { SEEDS.0 }).max(1);
    let expected = if options.quick { EXPERIMENT.expected_quick_s } else { EXPERIMENT.expected_s };
    let title = format!("{}: {}", EXPERIMENT.id, EXPERIMENT.title);
    let mut progress = Progress::new(&title, Duration::from_secs(expected));
    let (began, recorded_at_unix_s, load_before) =
        (Instant::now(), unix_now_s(), MachineLoad::read());
    let mut arms = arms();
    for number in 0..seeds {
        interrupt::check()?;
        progress.reach(number as f64 / seeds as f64, "simulating");
        simulate_one(options.seed.wrapping_add(number as u64), &mut arms);
    }
    Ok(Record {
        header: EXPERIMENT.header(options, recorded_at_unix_s),
        counted_s: simulate::WATCHED_S as f64,
        warmup_s: 0.0,
        took_s: began.elapsed().as_secs_f64(),
        load_before,
        load_after: MachineLoad::read(),
        verdicts: Vec::new(),
        sweep: "P; of the searches users".to_owned(),
        arms,
    })
}

/// Two arms for each machine, without runs.
fn arms() -> Vec<ArmRecord> {
    let arm = |label: &str, points: Vec<f64>| ArmRecord {
        arm: label.to_owned(),
        setup: BTreeMap::from([("server".to_owned(), "simulated".to_owned())]),
        points: points.into_iter().map(|at| Point { at, runs: Vec::new() }).collect(),
    };
    MACHINES
        .iter()
        .flat_map(|(curve, search, _)| {
            [arm(curve, POINTS.map(f64::from).to_vec()), arm(search, USERS.map(f64::from).to_vec())]
        })
        .collect()
}

/// One seed: the same database on each machine.
fn simulate_one(seed: u64, arms: &mut [ArmRecord]) {
    let most = USERS[USERS.len() - 1];
    let run = |numbers| Run { seed, numbers, bucket_s: 1.0, ..Run::default() };
    for ((_, _, cores), arms) in MACHINES.iter().zip(arms.chunks_mut(2)) {
        let mut random = Random::new(seed);
        let database = Database::drawn(*cores, &mut random);
        let curve = database.curve(most);
        let best = curve.iter().copied().fold(0.0, f64::max);
        for (point, p) in arms[0].points.iter_mut().zip(POINTS) {
            let share = 100.0 * curve[p as usize] / best;
            point.runs.push(run(BTreeMap::from([(SHARE.to_owned(), share)])));
        }
        for (point, users) in arms[1].points.iter_mut().zip(USERS) {
            let start = simulate::daemon_start();
            let mut numbers =
                simulate::search(&curve, *cores, users, start, &mut random).numbers(&curve);
            let low =
                simulate::search(&curve, *cores, users, LOW_START, &mut random).numbers(&curve);
            for key in ["found_p", "error", "settling_s"] {
                numbers.insert(format!("{key}_from_16"), low[key]);
            }
            point.runs.push(run(numbers));
        }
    }
}

fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, EXPERIMENT.id)?;
    let cells = cells(&record);
    let head: Vec<&str> = cells[0].iter().map(String::as_str).collect();
    let rows: Vec<_> = cells[1..]
        .iter()
        .map(|line| (String::new(), line.iter().map(|cell| escape(cell)).collect()))
        .collect();
    let show = Presentation {
        id: EXPERIMENT.id,
        figure: EXPERIMENT.figure,
        about: "A simulation, no measurement: the tuner of the gate, the very code that the daemon runs, against \
                databases whose throughput at each P follows from service times, latches, row locks and cache \
                conflicts. The middle one is fitted to MariaDB under TPC-C on two cores; each seed draws another one \
                around it and puts it on 2, 16 and 64 cores. How long latches are held and what handing them over \
                costs cannot be seen on two cores: they are drawn from a wide range, and the gain on many cores \
                depends on them.",
        sweep_label: "P",
        runs: "seeds",
        caption: format!("simulated, {} s of searching for each database", record.counted_s),
        quick: "fewer seeds",
        appendix: format!(
            "<h2>Medians of the seeds, and from the lowest tenth to the highest</h2>\n{}",
            table(&head, &rows, 1)
        ),
        claims: CLAIMS,
        panels: panels(),
        ..Presentation::default()
    };
    let mut outcome = sweep::report(&show, record, directory, fresh)?;
    outcome.text += &format!("\n{}", align(&cells));
    Ok(outcome)
}

const COLUMNS: usize = 9;

fn cells(record: &Record) -> Vec<[String; COLUMNS]> {
    let columns = [
        ("simulated", ""),
        ("best P", "optimum_p"),
        ("gain", "gain"),
        ("P found", "found_p"),
        ("λ_max error", "error"),
        ("of the model", "model_error"),
        ("settled, s", "settling_s"),
        ("error from 16", "error_from_16"),
        ("settled from 16, s", "settling_s_from_16"),
    ];
    let head = columns.map(|(head, _)| head);
    let mut lines = vec![head.map(str::to_owned)];
    for (machine, search, _) in MACHINES {
        for users in USERS {
            let values = |key: &str| -> Vec<f64> {
                let arm = record.arms.iter().find(|arm| arm.arm == search);
                let points = arm.into_iter().flat_map(|arm| &arm.points);
                let runs = points.filter(|p| p.at == f64::from(users)).flat_map(|p| &p.runs);
                runs.filter_map(|run| run.numbers.get(key).copied()).collect()
            };
            lines.push(std::array::from_fn(|column| match column.checked_sub(1) {
                None => format!("{machine}, {users} users"),
                Some(_) => tenths(values(columns[column].1)),
            }));
        }
    }
    lines
}

/// `12 (8 to 20)`: the median, and the values that a tenth lie below and above.
fn tenths(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let Some(middle) = median(&values) else { return "–".to_owned() };
    let last = values.len() - 1;
    let at = |part: f64| significant(values[(last as f64 * part).round() as usize]);
    format!("{} ({} to {})", significant(middle), at(0.1), at(0.9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_everywhere_and_fills_every_point() {
        let of = |seed| {
            let mut arms = arms();
            simulate_one(seed, &mut arms);
            arms
        };
        let arms = of(7);
        assert_eq!(arms, of(7));
        assert_ne!(arms, of(8));
        assert!(arms.iter().flat_map(|arm| &arm.points).all(|point| point.runs.len() == 1));
        // The best P has its own throughput.
        assert!(arms[0].points.iter().all(|point| point.runs[0].numbers[SHARE] <= 100.0));
    }

    #[test]
    fn tenths_leave_the_outermost_away() {
        assert_eq!(tenths((0..=10).map(f64::from).collect()), "5.00 (1.00 to 9.00)");
        assert_eq!(tenths(Vec::new()), "–");
    }
}
