use headworks_tad::{file::*, remedy::*, sim::run, systems};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    // system maat scenario-file seed
    let text = systems::text(&args[1]).or_else(|| systems::problem_text(&args[1])).unwrap();
    let mut tad = read_tad(&args[1], text).unwrap_or_else(|e| panic!("{e}")).value;
    for (p, l) in Problem::ALL.into_iter().zip(args[2].split('|')) {
        if l == "?" {
            continue;
        }
        let a = tad.remedies[&p].iter().find(|a| a.letter == l).unwrap().clone();
        for r in &a.remedies {
            apply(&mut tad, r).unwrap();
        }
    }
    let s = std::fs::read_to_string(&args[3]).unwrap();
    let s = read_scenario("s", &s, &tad).unwrap_or_else(|e| panic!("{e}")).value;
    for seed in args[4].split(',') {
        let t = std::time::Instant::now();
        let o = run(&tad, &s, seed.parse().unwrap(), &mut |_| {}).unwrap();
        println!(
            "seed {seed} events {} took {:?} inflight {} aborted {}",
            o.events,
            t.elapsed(),
            o.in_flight_max,
            o.aborted
        );
        for c in &o.clients {
            println!(
                "  {} {:.1}/s  {:?}",
                c.name,
                c.throughput_per_s,
                c.loads
                    .iter()
                    .map(|l| format!(
                        "{} {:.1}/s mean {:.2}ms p99 {:.2} max {:.2}",
                        l.name,
                        l.throughput_per_s,
                        l.latency_ms_mean,
                        l.latency_ms_p99,
                        l.latency_ms_max
                    ))
                    .collect::<Vec<_>>()
            );
            if std::env::var("SERIES").is_ok() {
                println!("    {:?}", c.series_per_s.iter().map(|v| v.round()).collect::<Vec<_>>());
            }
        }
        for r in &o.resources {
            println!("  {}.{} {:.3} {:.3?}", r.node, r.name, r.utilization, r.shares);
        }
        for st in &o.stages {
            println!(
                "  {} waiting {:.2?} serving {:.2?} forced {:.2?}",
                st.name, st.waiting, st.serving, st.forced_s
            );
        }
    }
}
