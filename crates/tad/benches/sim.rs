//! temporary
use headworks_tad::file::{read_scenario, read_tad};
use headworks_tad::sim::run;
use headworks_tad::systems;
use std::time::Instant;

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

fn main() {
    let nodes: Vec<u32> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    if nodes.is_empty() {
        golden();
        return;
    }
    for n in nodes {
        let mut tad = read_tad("hbase", systems::text("hbase").unwrap()).unwrap().value;
        tad.nodes[0].count = n;
        let secs = std::env::var("SECS").ok().and_then(|s| s.parse::<f64>().ok()).unwrap_or(2.0);
        let text = format!(
            "name = \"b\"\nduration = \"{secs} s\"\n[[client]]\nname = \"C1\"\n[[client.load]]\nrequest = \"get\"\nthreads = {}\n[[client]]\nname = \"C2\"\n[[client.load]]\nrequest = \"get\"\nthreads = {}\n",
            n * 40, n * 40
        );
        let scenario = read_scenario("b", &text, &tad).unwrap().value;
        let t = Instant::now();
        let o = run(&tad, &scenario, 1, &mut |_| {}).unwrap();
        let e = t.elapsed().as_secs_f64();
        println!("{n} nodes: {:.2} s, {} events, {:.1} ns/event, {} parts, {:.1} ns/part, io {:.3} in flight {} {:016x}", e, o.events, e * 1e9 / o.events as f64, o.parts, e * 1e9 / o.parts as f64, o.resource("slave", "io").unwrap().utilization, o.in_flight_max, fnv(serde_json::to_string(&o).unwrap().as_bytes()));
    }
}

fn golden() {
    for name in systems::names() {
        let base = read_tad(name, systems::text(name).unwrap()).unwrap().value;
        let mut variants = vec![("original".to_string(), base.clone())];
        for (problem, alternatives) in &base.remedies {
            for alternative in alternatives {
                let mut tad = base.clone();
                if alternative.remedies.iter().all(|r| headworks_tad::remedy::apply(&mut tad, r).is_ok()) {
                    variants.push((format!("{}.{}", problem.name(), alternative.letter), tad));
                }
            }
        }
        for (variant, tad) in variants { for light in [false, true] {
            let mut text = "name = \"all\"\nduration = \"2400 ms\"\nwarmup = \"100 ms\"\nsample = \"100 ms\"\njitter = 0.1\nswitch-cost = \"1 us\"\n".to_string();
            for c in 0..3 {
                text += &format!("[[client]]\nname = \"C{c}\"\nweight = {}\n", c + 1);
                for (i, request) in tad.requests.iter().enumerate() {
                    if i % 3 == c || i % 2 == 0 {
                        text += &format!("[[client.load]]\nrequest = \"{}\"\nthreads = {}\n", request.name, if light { 1 } else { 10 + i });
                    }
                }
            }
            let scenario = read_scenario("all", &text, &tad).unwrap_or_else(|e| panic!("{e}")).value;
            let t = Instant::now();
            let o = run(&tad, &scenario, 7, &mut |_| {}).unwrap();
            let e = t.elapsed().as_secs_f64();
            eprintln!("{name} {variant} {:.1} ns/event {} events", e * 1e9 / o.events as f64, o.events);
            println!("{name} {variant} {light} {:016x}", fnv(serde_json::to_string(&o).unwrap().as_bytes()));
        }}
    }
}
