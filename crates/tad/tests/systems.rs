//! The systems that come along: they can be read, and every request of theirs comes to its end.

use headworks_tad::file::{read_scenario, read_tad};
use headworks_tad::sim::run;
use headworks_tad::systems;

#[test]
fn every_request_of_every_system_is_answered() {
    let texts = systems::names().map(|name| (name, systems::text(name)));
    let small = systems::problem_names().map(|name| (name, systems::problem_text(name)));
    for (name, text) in texts.chain(small) {
        let text = text.unwrap();
        let loaded = read_tad(name, text).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(loaded.warnings.is_empty(), "{name}: {:?}", loaded.warnings);
        let tad = loaded.value;
        for request in &tad.requests {
            let scenario = format!(
                "name = \"all\"\nduration = \"4 s\"\nwarmup = \"1 s\"\nsample = \"1 s\"\njitter = 0.1\n\
                 [[client]]\nname = \"C1\"\n[[client.load]]\nrequest = \"{}\"\nthreads = 5\n",
                request.name
            );
            let scenario = read_scenario("all", &scenario, &tad)
                .unwrap_or_else(|errors| panic!("{errors}"))
                .value;
            let outcome = run(&tad, &scenario, 1, &mut |_| {}).unwrap();
            assert!(outcome.throughput("C1") > 1.0, "{name}: {}", request.name);
            // Nothing is left behind: five threads, five requests, and what follows their answers.
            assert!(
                outcome.in_flight_max < 5_000,
                "{name}: {}: {}",
                request.name,
                outcome.in_flight_max
            );
            println!("{name} {}: {:.0}/s", request.name, outcome.throughput("C1"));
        }
    }
}
