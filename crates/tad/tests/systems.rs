//! The systems that come along: they can be read, and every request of theirs comes to its end.

use headworks_tad::file::{read_scenario, read_tad, write_scenario, write_tad};
use headworks_tad::sim::run;
use headworks_tad::{scenarios, systems};

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

#[test]
fn what_is_written_is_read_as_the_same() {
    for name in systems::names() {
        let tad = read_tad(name, systems::text(name).unwrap()).unwrap().value;
        let written = write_tad(&tad);
        let again = read_tad(name, &written).unwrap_or_else(|errors| panic!("{errors}\n{written}"));
        assert_eq!(again.value, tad);
    }
    for included in scenarios::all() {
        let text = systems::text(included.system).unwrap();
        let tad = read_tad(included.system, text).unwrap().value;
        let scenario = read_scenario(included.name, included.text, &tad).unwrap().value;
        let written = write_scenario(&scenario, &tad);
        let again = read_scenario(included.name, &written, &tad)
            .unwrap_or_else(|errors| panic!("{errors}\n{written}"));
        assert_eq!(again.value, scenario);
    }
}

#[test]
fn every_scenario_says_what_to_look_at_and_every_client_is_served() {
    for included in scenarios::all() {
        let text = systems::text(included.system).unwrap();
        let tad = read_tad(included.system, text).unwrap().value;
        let loaded = read_scenario(included.name, included.text, &tad)
            .unwrap_or_else(|errors| panic!("{errors}"));
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        let mut scenario = loaded.value;
        assert_eq!(scenario.name, included.name);
        assert!(scenario.about.contains("Look at"), "{}", included.name);
        assert!(!scenario.changes.is_empty(), "{}: nothing happens", included.name);
        scenario.changes.clear();
        scenario.duration_ns = 3_000_000_000;
        let outcome = run(&tad, &scenario, 1, &mut |_| {}).unwrap();
        for client in &outcome.clients {
            assert!(client.throughput_per_s > 1.0, "{}: {}", included.name, client.name);
        }
    }
}
