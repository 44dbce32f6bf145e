//! Each kind of mistake in a scenario.

use super::*;

const SCENARIO: &str = include_str!("scenario.toml");

#[track_caller]
fn refused(old: &str, new: &str, words: &[&str]) {
    let tad = read_tad("good.toml", GOOD).unwrap().value;
    let at = SCENARIO.find(old).unwrap_or_else(|| panic!("{old:?} is not there"));
    let line = SCENARIO[..at].matches('\n').count() + 1;
    let text = SCENARIO.replacen(old, new, 1);
    let errors = match read_scenario("bad.toml", &text, &tad) {
        Ok(_) => panic!("no error after {old:?} became {new:?}"),
        Err(errors) => errors.to_string(),
    };
    let place = format!("bad.toml:{line}: ");
    assert!(errors.contains(&place), "no {place} in\n{errors}");
    for word in words {
        assert!(errors.contains(word), "no {word:?} in\n{errors}");
    }
}

#[test]
fn requests_clients_and_resources_that_there_are_not() {
    refused("request = \"put\"", "request = \"putt\"", &["no request \"putt\"", "\"put\"?"]);
    refused("client = \"C2\"", "client = \"C3\"", &["no client \"C3\"", "C1 or C2"]);
    refused("resource = \"io\"", "resource = \"ion\"", &["no resource \"ion\""]);
    refused("node = \"slave\"", "node = \"master\"", &["no node \"master\""]);
    refused("{ io = \"64 KB\" }", "{ ioo = \"64 KB\" }", &["no parameter \"ioo\"", "\"io\"?"]);
}

#[test]
fn quantities_that_make_no_sense() {
    refused("io = \"64 KB\"", "io = \"64 ms\"", &["bytes"]);
    refused("threads = 40", "threads = 0", &["out of range"]);
    refused("weight = 2.5", "weight = 0", &["never be served"]);
    refused("sample = \"500 ms\"", "sample = \"0 s\"", &["`sample` is zero"]);
    refused("warmup = \"5 s\"", "warmup = \"60 s\"", &["nothing is counted"]);
    refused("rate = \"1 MB/s\"", "rate = \"0 MB/s\"", &["never ends"]);
    refused("at = \"30 s\"", "at = \"90 s\"", &["after the end"]);
    refused("{ zipf = 0.9 }", "{ zipf = -1 }", &["which partitions"]);
    refused("entry = \"node 1\"", "entry = \"node 7\"", &["\"node 6\""]);
}

#[test]
fn loads_that_come_in_two_ways_or_in_none() {
    refused(
        "[[client.load]]\nname = \"trickle\"",
        "[[client.load]]\nname = \"trickle\"\nthreads = 3",
        &["2 ways"],
    );
    let none = "[[client.load]]\nname = \"trickle\"\nrequest = \"get\"\nrate = 100";
    refused(none, "[[client.load]]\nname = \"trickle\"\nrequest = \"get\"", &["closed loop"]);
    refused(
        "{ count = 80, every = \"1 s\" }",
        "{ count = 80 }",
        &["so many requests every so often"],
    );
}

#[test]
fn words_that_mean_nothing() {
    refused("policy = \"drf\"", "policy = \"dfrf\"", &["no policy \"dfrf\"", "\"drf\"?"]);
    refused("think = \"1 ms\"", "thinks = \"1 ms\"", &["no key `thinks`", "\"think\"?"]);
    refused("name = \"C2\"", "name = \"C1\"", &["two of client \"C1\""]);
    refused("[[client.load]]\nname = \"trickle\"", "[[client.load]]\n", &["two loads"]);
}
