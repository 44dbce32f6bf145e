//! What the simulator can do beyond the dissertation's simplifications (section 4.1.2): caches,
//! disks with an arm, preemption, switches of threads. Each against arithmetic.

use headworks_tad::file::{read_scenario, read_tad, write_tad};
use headworks_tad::sim::{Outcome, run};

/// One node, one stage, one request. The CPU does 1e9 cycles a second, the disk 100 MB.
fn system(resources: &str, uses: &str, step: &str) -> String {
    format!(
        "name = \"one\"\n\
         [[node]]\nname = \"n\"\n\
         [[node.resource]]\nname = \"cpu\"\nrate = \"1 GHz\"\n{resources}\n\
         [[process]]\nname = \"p\"\nnode = \"n\"\n\
         [[stage]]\nname = \"s\"\nprocess = \"p\"\nthreads = 10\nqueue = {{ pluggable = true }}\nuses = {uses}\n\
         [[request]]\nname = \"r\"\nparameters = {{ work = \"100 us\" }}\nanswered-by = [\"a\"]\n\
         [[request.step]]\nname = \"a\"\nstage = \"s\"\n{step}\n"
    )
}

fn simulate(system: &str, top: &str, clients: &[&str]) -> Outcome {
    let tad = read_tad("one", system).unwrap_or_else(|errors| panic!("{errors}\n{system}")).value;
    assert_eq!(read_tad("again", &write_tad(&tad)).unwrap().value, tad);
    let mut text =
        format!("name = \"s\"\nduration = \"12 s\"\nwarmup = \"2 s\"\nsample = \"1 s\"\n{top}\n");
    for (number, load) in clients.iter().enumerate() {
        text += &format!("[[client]]\nname = \"C{}\"\n", number + 1);
        text += &format!("[[client.load]]\nrequest = \"r\"\n{load}\n");
    }
    let scenario =
        read_scenario("s", &text, &tad).unwrap_or_else(|errors| panic!("{errors}")).value;
    run(&tad, &scenario, 1, &mut |_| {}).unwrap()
}

fn near(got: f64, wanted: f64, part: f64) {
    assert!((got / wanted - 1.0).abs() < part, "{got}, expected {wanted}");
}

const DISK: &str = "[[node.resource]]\nname = \"io\"\nrate = \"100 MB/s\"";

fn cached(entries: u32, keys: u32) -> String {
    let step = format!(
        "uses = [\"cpu $work\", \"io 100 KB\"]\ncache = {{ name = \"c\", entries = {entries}, keys = {keys}, skips = [\"io\"] }}"
    );
    system(DISK, "[\"cpu\", \"io?\"]", &step)
}

#[test]
fn a_cache_with_room_for_all_keys_leaves_the_cpu_as_the_bottleneck() {
    let outcome = simulate(&cached(50, 50), "", &["threads = 20"]);
    // 100 us of CPU each, and no I/O once every key was there.
    near(outcome.throughput("C1"), 10_000.0, 0.01);
    assert_eq!(outcome.caches[0].misses, 0);
}

#[test]
fn a_cache_for_a_tenth_of_the_keys_saves_a_tenth_of_the_disk() {
    let outcome = simulate(&cached(100, 1_000), "", &["threads = 20"]);
    let cache = &outcome.caches[0];
    near(cache.hits as f64 / (cache.hits + cache.misses) as f64, 0.1, 0.1);
    // 1,000 reads a second are 9 of 10 requests.
    near(outcome.throughput("C1"), 1_000.0 / 0.9, 0.02);
}

#[test]
fn a_client_that_scans_pushes_another_ones_keys_out() {
    let hot = "threads = 4\nkeys = { zipf = 1.2 }";
    let alone = simulate(&cached(200, 10_000), "", &[hot]).throughput("C1");
    let beside = simulate(&cached(200, 10_000), "policy = \"drf\"", &[hot, "threads = 36"]);
    let ratio = |outcome: &Outcome| {
        let cache = &outcome.caches[0];
        cache.hits as f64 / (cache.hits + cache.misses) as f64
    };
    assert!(beside.throughput("C1") < alone / 1.5, "{alone} {}", beside.throughput("C1"));
    assert!(ratio(&beside) < 0.5, "{}", ratio(&beside));
}

#[test]
fn mistakes_about_caches_are_told() {
    let wrong = |uses: &str, cache: &str| {
        let step = format!("uses = [\"cpu $work\", \"io 1 KB\"]\ncache = {cache}");
        read_tad("x", &system(DISK, uses, &step)).unwrap_err().to_string()
    };
    let fine = "{ name = \"c\", entries = 1, keys = 1, skips = [\"io\"] }";
    assert!(wrong("[\"cpu\", \"io\"]", fine).contains("\"io?\""));
    let none = "{ name = \"c\", entries = 1, keys = 1, skips = [] }";
    assert!(wrong("[\"cpu\", \"io?\"]", none).contains("at least one"));
    let disc = "{ name = \"c\", entries = 1, keys = 1, skips = [\"disc\"] }";
    assert!(wrong("[\"cpu\", \"io?\"]", disc).contains("does not use"));
    assert!(wrong("[\"cpu\", \"io?\"]", "{ name = \"c\", skips = [\"io\"] }").contains("entries"));
}

#[test]
fn an_arm_moves_between_clients_and_not_within_one() {
    let disk = format!("{DISK}\nseek = [\"4 ms\", \"12 ms\"]");
    let text = system(&disk, "[\"cpu\", \"io\"]", "uses = [\"cpu $work\", \"io 100 KB\"]");
    // Alone: 1 ms of transfer each.
    near(simulate(&text, "", &["threads = 4"]).throughput("C1"), 1_000.0, 0.01);
    // In turns: the mean of the root of the distance of two random places is 8/15, so a seek takes
    // 4 ms + 8 ms * 8/15 = 8.27 ms, and an access 9.27 ms.
    let both = simulate(&text, "", &["threads = 1", "threads = 1"]);
    near(both.throughput("C1") + both.throughput("C2"), 1e3 / 9.267, 0.03);
}

#[test]
fn turns_let_short_requests_pass_long_ones() {
    let long = "threads = 1\nparameters = { work = \"100 ms\" }";
    let short = "threads = 1\nparameters = { work = \"1 ms\" }";
    let to_the_end = system("", "[\"cpu\"]", "uses = [\"cpu $work\"]");
    // One short after each long one.
    near(simulate(&to_the_end, "", &[short, long]).throughput("C1"), 1e3 / 101.0, 0.02);
    let turns = to_the_end.replace("rate = \"1 GHz\"", "rate = \"1 GHz\"\nquantum = \"1 ms\"");
    // One short after each turn of a long one.
    near(simulate(&turns, "", &[short, long]).throughput("C1"), 500.0, 0.02);
}

#[test]
fn switches_of_threads_cost_cpu_time() {
    let text = system("", "[\"cpu\"]", "uses = [\"cpu $work\"]");
    near(simulate(&text, "", &["threads = 20"]).throughput("C1"), 10_000.0, 0.01);
    let switching = simulate(&text, "switch-cost = \"25 us\"", &["threads = 20"]);
    near(switching.throughput("C1"), 8_000.0, 0.01);
}

#[test]
fn requests_that_take_no_time_are_refused() {
    let text = system("", "[\"cpu\"]", "uses = [\"cpu $work\"]");
    let tad = read_tad("one", &text).unwrap().value;
    let load = "[[client]]\nname = \"C\"\n[[client.load]]\nrequest = \"r\"\nthreads = 1\nparameters = { work = \"0 us\" }";
    let scenario = format!("name = \"s\"\n{load}");
    let scenario = read_scenario("s", &scenario, &tad).unwrap().value;
    let error = run(&tad, &scenario, 1, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("consume nothing") && error.contains("think"), "{error}");
}
