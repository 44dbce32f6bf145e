//! A run is a pure function of system, scenario and seed.

use headworks_tad::file::{read_scenario, read_tad};
use headworks_tad::remedy::apply;
use headworks_tad::sim::run;
use headworks_tad::systems;

/// What a system with one remedy of each kind that it has finds, as bytes.
fn bytes(name: &str, seed: u64) -> String {
    let mut tad = read_tad(name, systems::text(name).unwrap()).unwrap().value;
    for alternatives in tad.remedies.clone().values() {
        // What does not fit after the others is left out; it is the same ones each time.
        for remedy in alternatives.iter().flat_map(|alternative| &alternative.remedies) {
            let mut changed = tad.clone();
            if apply(&mut changed, remedy).is_ok() {
                tad = changed;
            }
        }
    }
    let loads: String = tad
        .requests
        .iter()
        .map(|request| format!("{{ request = \"{}\", threads = 9 }},", request.name))
        .collect();
    let text = format!(
        "name = \"all\"\nduration = \"1500 ms\"\nwarmup = \"200 ms\"\nsample = \"300 ms\"\njitter = 0.2\n\
         client = [{{ name = \"C1\", load = [{loads}] }}, {{ name = \"C2\", weight = 2.0, load = [{loads}] }}]"
    );
    let scenario = read_scenario("all", &text, &tad).unwrap_or_else(|e| panic!("{e}")).value;
    serde_json::to_string(&run(&tad, &scenario, seed, &mut |_| {}).unwrap()).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for name in systems::names() {
        let first = bytes(name, 1);
        assert_eq!(first, bytes(name, 1), "{name}: a second time");
        let (same, other) = std::thread::scope(|scope| {
            let same = scope.spawn(|| bytes(name, 1));
            let other = scope.spawn(|| bytes(name, 2));
            (same.join().unwrap(), other.join().unwrap())
        });
        assert_eq!(first, same, "{name}: beside another seed");
        assert_ne!(first, other.replace("\"seed\":2", "\"seed\":1"), "{name}: seeds matter");
    }
}
