//! What files say of real systems: lengths that are drawn, quorums, batches, delays, clients that
//! give up. Each is read, written, read again, and simulated against arithmetic.

use headworks_tad::file::{read_scenario, read_tad, write_scenario, write_tad};
use headworks_tad::sim::{Outcome, run};

/// A CPU, a disk and a line, and a stage for requests; then what a test adds.
const HEAD: &str = r#"
name = "one"
[[node]]
name = "n"
resource = [
    { name = "cpu", rate = "1 GHz" },
    { name = "io", rate = "100 MB/s" },
    { name = "line", kind = "delay" },
]
[[process]]
name = "p"
node = "n"
"#;

fn simulate(system: &str, top: &str, load: &str) -> Outcome {
    let system = format!("{HEAD}{system}");
    let tad = read_tad("one", &system).unwrap_or_else(|errors| panic!("{errors}\n{system}")).value;
    assert_eq!(read_tad("again", &write_tad(&tad)).unwrap().value, tad);
    let text = format!(
        "name = \"s\"\n{top}\n[[client]]\nname = \"C1\"\n[[client.load]]\nrequest = \"r\"\n{load}\n"
    );
    let scenario =
        read_scenario("s", &text, &tad).unwrap_or_else(|errors| panic!("{errors}")).value;
    let written = write_scenario(&scenario, &tad);
    assert_eq!(read_scenario("again", &written, &tad).unwrap().value, scenario);
    run(&tad, &scenario, 1, &mut |_| {}).unwrap()
}

fn near(got: f64, wanted: f64, part: f64) {
    assert!((got / wanted - 1.0).abs() < part, "{got}, expected {wanted}");
}

/// One thread and one server; requests come at random.
fn queue(amount: &str) -> String {
    format!(
        "[[stage]]\nname = \"s\"\nprocess = \"p\"\nthreads = 1\nuses = [\"cpu\"]\n\
         [[request]]\nname = \"r\"\nanswered-by = [\"a\"]\n\
         [[request.step]]\nname = \"a\"\nstage = \"s\"\nuses = [\"cpu {amount}\"]\n"
    )
}

const LONG: &str = "duration = \"600 s\"\nwarmup = \"5 s\"\nsample = \"10 s\"";
const SHORT: &str = "duration = \"12 s\"\nwarmup = \"2 s\"";

fn latency_ms(outcome: &Outcome) -> f64 {
    outcome.clients[0].loads[0].latency_ms_mean
}

#[test]
fn exponential_service_is_the_queue_of_the_textbook() {
    // M/M/1: 1 / (1,000 - 500) s.
    let outcome = simulate(&queue("exponential 1 ms"), LONG, "rate = 500");
    near(latency_ms(&outcome), 2.0, 0.03);
    // Its latency is exponential, too: the 99th percentile is ln 100 times the mean.
    near(outcome.clients[0].loads[0].latency_ms_p99, 2.0 * 100f64.ln(), 0.13);
}

#[test]
fn other_laws_wait_as_pollaczek_and_khinchine_say() {
    // Mean wait: rate * E[S²] / (2 * (1 - load)).
    let wait_ms = |square: f64| 0.5 * square / (2.0 * 0.5);
    let fixed = simulate(&queue("1 ms"), LONG, "rate = 500");
    near(latency_ms(&fixed), 1.0 + wait_ms(1.0), 0.03);
    // 0.5 ms nine times, 5.5 ms once: mean 1, mean square 3.25.
    let histogram = simulate(&queue("histogram 500 us: 9, 5500 us: 1"), LONG, "rate = 500");
    near(latency_ms(&histogram), 1.0 + wait_ms(3.25), 0.05);
    // Pareto of shape 4 with mean 1: E[S²] = scale² * 4 / (4 - 2), scale 3/4.
    let pareto = simulate(&queue("pareto 4 1 ms"), LONG, "rate = 500");
    near(latency_ms(&pareto), 1.0 + wait_ms(1.125), 0.05);
}

#[test]
fn a_heavy_tail_is_longer_than_an_exponential_one() {
    let tail =
        |amount| simulate(&queue(amount), LONG, "rate = 500").clients[0].loads[0].latency_ms_max;
    let (pareto, exponential) = (tail("pareto 1.5 1 ms"), tail("exponential 1 ms"));
    assert!(pareto > 3.0 * exponential, "{pareto} {exponential}");
}

/// A step that waits for three others, which take 10, 20 and 30 ms.
fn replicas(enough: &str) -> String {
    let mut text = "[[stage]]\nname = \"s\"\nprocess = \"p\"\nthreads = 4\nuses = [\"cpu\"]\n\
        [[stage]]\nname = \"replica\"\nprocess = \"p\"\nthreads = \"on-demand\"\nuses = [\"line\"]\n\
        [[request]]\nname = \"r\"\nanswered-by = [\"a\"]\n\
        [[request.step]]\nname = \"a\"\nstage = \"s\"\nuses = [\"cpu 1 us\"]\ncalls = [\"one\", \"two\", \"three\"]\n"
        .to_owned();
    text += enough;
    for (name, ms) in [("one", 10), ("two", 20), ("three", 30)] {
        text += &format!(
            "[[request.step]]\nname = \"{name}\"\nstage = \"replica\"\nuses = [\"line {ms} ms\"]\n"
        );
    }
    text
}

#[test]
fn a_quorum_waits_for_the_second_of_three() {
    near(latency_ms(&simulate(&replicas("enough = 2\n"), SHORT, "threads = 4")), 20.0, 0.001);
    near(latency_ms(&simulate(&replicas("enough = 1\n"), SHORT, "threads = 4")), 10.0, 0.001);
    near(latency_ms(&simulate(&replicas(""), SHORT, "threads = 4")), 30.0, 0.001);
}

#[test]
fn no_request_waits_for_another_over_a_delay() {
    let text = "[[stage]]\nname = \"s\"\nprocess = \"p\"\nthreads = \"on-demand\"\nuses = [\"line\"]\n\
        [[request]]\nname = \"r\"\nanswered-by = [\"a\"]\n\
        [[request.step]]\nname = \"a\"\nstage = \"s\"\nuses = [\"line 100 ms\"]\n";
    near(simulate(text, SHORT, "threads = 50").throughput("C1"), 500.0, 0.001);
    let line =
        headworks_tad::check::report(&read_tad("x", &format!("{HEAD}{text}")).unwrap().value);
    assert_eq!(line.problems, "", "nothing to schedule");
}

/// A log: 10 us of CPU for each request, and a write of 1 ms.
fn log(batch: &str) -> String {
    format!(
        "[[stage]]\nname = \"s\"\nprocess = \"p\"\nthreads = 1\nuses = [\"cpu\", \"io\"]\n{batch}\n\
         [[request]]\nname = \"r\"\nanswered-by = [\"a\"]\n\
         [[request.step]]\nname = \"a\"\nstage = \"s\"\nuses = [\"cpu 10 us\", \"io 100 KB\"]\n"
    )
}

#[test]
fn a_group_commit_writes_once_for_all_that_wait() {
    let alone = simulate(&log(""), SHORT, "threads = 64");
    near(alone.throughput("C1"), 1e3 / 1.01, 0.01);
    // In turns a batch of k and one of 64 - k: 64 requests in 2 ms of writing and 0.64 ms of CPU.
    let most = simulate(&log("batch = { most = 64, once = [\"io\"] }"), SHORT, "threads = 64");
    near(most.throughput("C1"), 64e3 / 2.64, 0.01);
    // At most four at a time: 4 in 1.04 ms.
    let four = simulate(&log("batch = { most = 4, once = [\"io\"] }"), SHORT, "threads = 64");
    near(four.throughput("C1"), 4e3 / 1.04, 0.01);
}

#[test]
fn clients_give_up_and_what_they_gave_up_goes_on() {
    let fine = simulate(&queue("4 ms"), SHORT, "threads = 1\ntimeout = \"10 ms\"\nretries = 2");
    near(fine.throughput("C1"), 250.0, 0.001);
    assert_eq!((fine.clients[0].loads[0].timeouts, fine.clients[0].loads[0].failed), (0, 0));
    // 30 ms of service, and a client that asks again after 20: no answer ever comes in time, and
    // the queue grows. Three attempts make a failure.
    let lost = simulate(&queue("30 ms"), SHORT, "threads = 1\ntimeout = \"20 ms\"\nretries = 2");
    let load = &lost.clients[0].loads[0];
    assert_eq!(load.answered, 0);
    near(load.timeouts as f64, 500.0, 0.01);
    near(load.failed as f64, 500.0 / 3.0, 0.02);
    near(lost.resource("n", "cpu").unwrap().utilization, 1.0, 0.001);
}

#[test]
fn the_last_interval_is_divided_by_its_own_length() {
    let outcome =
        simulate(&queue("1 ms"), "duration = \"2500 ms\"\nsample = \"1 s\"", "threads = 4");
    let series = &outcome.clients[0].series_per_s;
    assert_eq!(series.len(), 3);
    near(series[2], 1_000.0, 0.01);
    let used = &outcome.resources[0].series;
    assert_eq!(used.len(), 3);
    near(used[2][0], 1.0, 0.01);
    // What is answered in the last instant makes no further interval.
    let whole = simulate(&queue("1 ms"), "duration = \"3 s\"\nsample = \"1 s\"", "threads = 4");
    assert_eq!(whole.clients[0].series_per_s.len(), 3);
}

#[test]
fn latencies_are_told_for_each_interval() {
    let top = "duration = \"4 s\"\nsample = \"1 s\"\n[[change]]\nat = \"2 s\"\nclient = \"C1\"\n\
        [[change.load]]\nrequest = \"r\"\nname = \"more\"\nthreads = 40";
    let outcome = simulate(&queue("1 ms"), top, "threads = 4");
    let [few, more] = outcome.clients[0].loads.as_slice() else { panic!("two loads") };
    near(few.latency_ms_series[1].unwrap()[0], 4.0, 0.01);
    assert_eq!(few.latency_ms_series[3], None);
    near(more.latency_ms_series[3].unwrap()[0], 40.0, 0.01);
}

#[test]
fn what_makes_no_sense_is_refused_at_once() {
    let wrong = |system: &str| read_tad("x", &format!("{HEAD}{system}")).unwrap_err().to_string();
    assert!(wrong(&queue("pareto 1 1 ms")).contains("above 1"));
    assert!(wrong(&queue("histogram 1 ms: 0")).contains("not all counts are zero"));
    assert!(wrong(&queue("histogram 1 KB: 3")).contains("no entry of a histogram"));
    assert!(wrong(&queue("exponential")).contains("number"));
    assert!(wrong(&replicas("enough = 4\n")).contains("waits for 3 steps"));
    assert!(wrong(&log("batch = { once = [\"io\"] }")).contains("how many requests"));
    assert!(wrong(&log("batch = { most = 3, once = [\"line\"] }")).contains("does not use"));
    let waits = replicas("").replacen("threads = 4", "threads = 4\nbatch = { most = 3 }", 1);
    assert!(wrong(&waits).contains("as one batch"));
    let endless = HEAD.replace("kind = \"delay\"", "kind = \"delay\", parallelism = 3");
    let error = read_tad("x", &format!("{endless}{}", queue("1 ms"))).unwrap_err().to_string();
    assert!(error.contains("a delay has no limit"), "{error}");
    let tad = read_tad("x", &format!("{HEAD}{}", queue("1 ms"))).unwrap().value;
    let wrong = |top: &str, load: &str| {
        let text = format!(
            "name = \"s\"\n{top}\n[[client]]\nname = \"C\"\n[[client.load]]\nrequest = \"r\"\n{load}"
        );
        read_scenario("x", &text, &tad).unwrap_err().to_string()
    };
    assert!(wrong("sample = \"1 ns\"", "threads = 1").contains("intervals"));
    assert!(wrong("", "rate = 1e12").contains("would take days"));
    assert!(wrong("", "burst = { count = 1000000, every = \"1 us\" }").contains("would take days"));
    assert!(wrong("", "threads = 1\nretries = 3").contains("never asks again"));
    assert!(wrong("", "threads = 1\ntimeout = \"1 s\"\nretries = 0.5").contains("whole number"));
}

#[test]
fn turns_of_a_stage_let_short_requests_pass_long_ones() {
    let text =
        queue("$work").replace("answered-by", "parameters = { work = \"1 ms\" }\nanswered-by");
    let text = text.replace("threads = 1\n", "threads = 1\nqueue = { pluggable = true }\n");
    let beside = "threads = 1\n[[client]]\nname = \"C2\"\n[[client.load]]\nrequest = \"r\"\n\
        threads = 4\nparameters = { work = \"100 ms\" }";
    let top = format!("{SHORT}\npolicy = \"drf\"");
    // To the end: one short request after each long one.
    near(simulate(&text, &top, beside).throughput("C1"), 1e3 / 101.0, 0.02);
    let turns =
        format!("{text}[[control]]\ndo = \"serve-in-turns\"\nstage = \"s\"\nturn = \"100 us\"\n");
    let outcome = simulate(&turns, &top, beside);
    // Half of the CPU, and at most a turn of waiting for each.
    near(outcome.throughput("C1"), 500.0, 0.06);
    near(outcome.throughput("C2"), 5.0, 0.1);
    near(outcome.resource("n", "cpu").unwrap().utilization, 1.0, 0.001);
}
