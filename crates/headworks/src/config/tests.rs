use super::*;
use headworks_region::Mode;
use headworks_region::control::{Count, TemporaryP};
use headworks_region::io::Subject;
use headworks_region::rules::Identity;
use headworks_region::text::Text;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("gate.toml"))
}

fn region() -> Box<Region> {
    // SAFETY: all zero bytes are a valid region.
    unsafe {
        let layout = std::alloc::Layout::new::<Region>();
        Box::from_raw(std::alloc::alloc_zeroed(layout).cast::<Region>())
    }
}

/// The refusal of a text: its place and its whole message.
fn refusal(text: &str) -> ((usize, usize), String) {
    match parse(text) {
        Ok(config) => panic!("accepted: {config:?}"),
        Err(ConfigError::Invalid(invalid)) => ((invalid.line, invalid.column), invalid.to_string()),
        Err(other) => panic!("{other}"),
    }
}

fn assert_refused(text: &str, place: (usize, usize), parts: &[&str]) {
    let (found, message) = refusal(text);
    assert_eq!(found, place, "{message}");
    assert!(message.starts_with(&format!("gate.toml:{}:{}: ", place.0, place.1)), "{message}");
    for part in parts {
        assert!(message.contains(part), "no {part:?} in:\n{message}");
    }
}

const EXAMPLE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/headworks.toml"));

/// The example with its settings in force. A comment has a blank after `#`, a setting has none.
fn example_in_force() -> String {
    let line = |line: &str| match line.strip_prefix('#') {
        Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => setting.to_owned(),
        _ => line.to_owned(),
    };
    EXAMPLE.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn key_of(line: &str) -> Option<&str> {
    line.split_once(" = ").map(|(key, _)| key).filter(|key| !key.contains([' ', '#']))
}

#[test]
fn the_example_as_it_is_means_the_defaults() {
    let config = parse(EXAMPLE).unwrap();
    assert_eq!(config.settings, Config::default().settings);
    assert_eq!(config.classes, Config::default().classes);
    assert!(config.rules.is_empty());
}

#[test]
fn the_defaults_that_the_example_documents_are_those_of_the_code() {
    let in_force = example_in_force();
    let gate = in_force.split("[[class]]").next().unwrap();
    let config = parse(gate).unwrap();
    let parallelism = OPEN;
    assert_eq!(Settings { parallelism, ..config.settings }, Config::default().settings);
    for number in schema::WHOLE_NUMBERS {
        let range = format!("{} to {}", number.least, number.most);
        let joined = EXAMPLE.replace("\n# ", " ").replace("\n#   ", " ");
        assert!(
            joined.contains(&range),
            "the example does not say that `{}` is {range}",
            number.key
        );
    }
}

#[test]
fn the_example_shows_every_key() {
    let in_force = example_in_force();
    let config = parse(&in_force).unwrap();
    assert_eq!((config.classes.len(), config.rules.len()), (3, 2));
    let shown = |section: &str| -> Vec<&str> {
        let of =
            in_force.split("\n[").filter(|part| part.trim_start_matches('[').starts_with(section));
        let mut keys: Vec<&str> = of.flat_map(|part| part.lines().filter_map(key_of)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    };
    for (section, text) in [
        ("gate", "[gate]\nx=1"),
        ("class", "[[class]]\nx=1"),
        ("rule", "[[rule]]\nx=1"),
        ("io.file", "[[io.file]]\nx=1"),
        ("io.thread", "[[io.thread]]\nx=1"),
    ] {
        let (_, message) = refusal(text);
        let known = message.split("The keys here are: ").nth(1).unwrap().trim_end_matches('.');
        let mut known: Vec<&str> = known.split(", ").collect();
        known.sort_unstable();
        assert_eq!(shown(section), known, "[{section}]");
    }
}

#[test]
fn files_and_threads_are_told_to_the_io_scheduler() {
    let config = parse(
        "[io]\nscheduler = \"split-token\"\ndevice = \"disk\"\nio_hold_ms_max = 200\ninheritance = false\nbackground_reads = 4\n\
         [[io.file]]\npath = \"*/wal\"\nfsync_ms = 2.5\n\
         [[io.thread]]\nname = \"b*\"\npriority = 7\nbytes_per_s = 1000\nfsync_ms = 200\n\
         [[io.thread]]\nclass = \"reports\"\n[[io.thread]]\ncgroup = \"*/b.slice/*\"\n",
    )
    .unwrap();
    let io = config.io;
    assert_eq!((io.kind.name(), io.rotational), ("split-token", Some(true)));
    assert_eq!((io.hold_max, io.inheritance), (Nanos::from_millis(200), false));
    assert_eq!(io.background_reads, 4);
    assert_eq!(io.rules[0].deadline, Nanos::from_micros(2_500));
    assert_eq!(io.rules[1].deadline, Nanos::from_millis(200));
    assert_eq!((io.rules[1].level, io.rules[1].rate, io.rules[1].burst), (Some(7), 1_000, 0));
    let subjects = io.rules[1..].iter().map(|rule| rule.subject);
    assert!(subjects.eq([Subject::Thread, Subject::Class, Subject::Cgroup]));
    for (text, cause) in [
        ("[[io.thread]]\npriority = 5\n", "no `name`"),
        ("[[io.thread]]\nname = \"a\"\ncgroup = \"b\"\n", "`name` and `cgroup`"),
        ("[[io.file]]\nfsync_ms = 5\n", "no `path`"),
        ("[[io.file]]\npath = \"a\"\n", "says nothing"),
        ("[[io.file]]\npath = \"a\"\nfsync_ms = 0\n", "out of range"),
        ("[[io.thread]]\nname = \"a\"\npriority = 8\n", "out of range"),
        ("[[io.thread]]\nname = \"a\"\nfsync_ms = 0\n", "out of range"),
        ("[io]\nscheduler = \"cfq\"\n", "knows no \"cfq\""),
    ] {
        let (_, what) = refusal(text);
        assert!(what.contains(cause), "{text}: {what}");
    }
}

#[test]
fn an_empty_file_means_the_defaults() {
    assert_eq!(parse("").unwrap().settings, Config::default().settings);
}

#[test]
fn everything_that_is_written_arrives() {
    let config = parse(
        "[gate]\nmode = \"dry-run\"\ncount = \"admitted\"\nparallelism = 24\nquota_requests = 7\nunfairness_max = 0.1\nlatency_cv_max = 1.5\nhold_ms_max = 9000\n\
         idle_in_transaction_ms = 0\nanticipation_us = 50\nstall_ms = 250\n\
         [[class]]\nname = \"reports\"\nweight = 0.25\nweight_of = \"class\"\nlatency_ms_max = 60\npercentile = 95\nforeground = false\n\
         [[class]]\nname = \"default\"\nweight = 2\n\
         [[rule]]\naddress = \"FD00::0001\"\nport = 3307\nclass = \"reports\"\n",
    )
    .unwrap();
    let settings = Settings {
        mode: Mode::DryRun,
        off: false,
        parallelism: 24,
        auto: false,
        zeta: 7,
        unfairness_max_mille: 100,
        latency_cv_max_mille: 1500,
        hold_max: Nanos::from_millis(9000),
        idle_limit: Nanos(0),
        anticipation: Nanos::from_micros(50),
        stall: Nanos::from_millis(250),
        count: Count::Admitted,
    };
    assert_eq!(config.settings, settings);
    let class = |name: &str, weight_thousandths, shared| ClassConfig {
        name: name.to_owned(),
        weight_thousandths,
        shared,
        target: None,
        foreground: true,
    };
    let target = Some((0.95, Nanos::from_millis(60)));
    let reports = ClassConfig { target, foreground: false, ..class("reports", 250, true) };
    assert_eq!(config.classes, [class("default", 2000, false), reports]);
    let text = |text: &str| Text::new(text.as_bytes());
    let mut identity = Identity {
        account: text("visitor"),
        database: text(""),
        application: text(""),
        address: text("fd00::1"),
        local_port: 3307,
    };
    assert!(config.rules[0].fits(&identity));
    identity.address = text("fd00::2");
    assert!(!config.rules[0].fits(&identity));
    assert_eq!((config.rules[0].verdict.class, config.rules[0].verdict.bypass), (1, false));
}

#[test]
fn an_unknown_key_names_the_one_that_was_meant() {
    assert_refused(
        "[gate]\n  parallelsim = 3",
        (2, 3),
        &["no key `parallelsim`", "Did you mean `parallelism`?"],
    );
    assert_refused("[gate]\nhold_ms = 3", (2, 1), &["Did you mean `hold_ms_max`?", "stall_ms"]);
    assert_refused(
        "[gates]\nmode = \"dry-run\"",
        (1, 2),
        &["no key `gates`", "Did you mean `gate`?"],
    );
    assert_refused(
        "[[rule]]\nuser = \"a\"\nclass = \"default\"",
        (2, 1),
        &["no key `user`", "account, database"],
    );
}

#[test]
fn a_wrong_type_says_what_to_write() {
    assert_refused(
        "[gate]\nparallelism = \"16\"",
        (2, 1),
        &["`parallelism`", "a whole number from 1 to 1024 (sessions)"],
    );
    assert_refused("[gate]\nstall_ms = 0.5", (2, 1), &["`stall_ms`", "whole number"]);
    assert_refused("[gate]\nmode = 3", (2, 1), &["`mode`", "`mode = \"...\"`"]);
    assert_refused(
        "[[class]]\nname = \"a\"\nweight = \"heavy\"",
        (3, 1),
        &["`weight`", "0.001 to 1000"],
    );
    assert_refused("[[rule]]\nbypass = \"yes\"", (2, 1), &["`bypass = true`"]);
    assert_refused("[class]\nname = \"a\"", (1, 1), &["`[[class]]`"]);
}

#[test]
fn what_is_no_toml_is_placed() {
    assert_refused("[gate]\nmode = dry-run", (2, 8), &["texts stand in quotes"]);
    assert_refused("[gate]\nstall_ms = 50\nstall_ms = 60", (3, 1), &["duplicate key", "Keep one"]);
}

#[test]
fn numbers_out_of_range() {
    assert_refused("[gate]\nparallelism = 1025", (2, 1), &["1025", "from 1 to 1024"]);
    assert_refused("[gate]\nparallelism = 0", (2, 1), &["out of range", "default: auto"]);
    assert_refused(
        "[[class]]\nname = \"a\"\nlatency_ms_max = -1",
        (3, 1),
        &["latency_ms_max", "out of range"],
    );
    assert_refused(
        "[[class]]\nname = \"a\"\nlatency_ms_max = 60\npercentile = 100",
        (4, 1),
        &["`percentile` is 100", "from 50 to 99.99"],
    );
    assert_refused(
        "[[class]]\nname = \"a\"\npercentile = 99",
        (3, 1),
        &["says nothing without a target"],
    );
    assert_refused("[gate]\nparallelism = -4", (2, 1), &["-4"]);
    assert_refused("gate = { stall_ms = 1 }", (1, 10), &["`stall_ms` is 1"]);
    assert_refused("[[rule]]\nport = 70000\nbypass = true", (2, 1), &["65535"]);
    for weight in ["0", "-1", "1001", "nan", "inf"] {
        assert_refused(
            &format!("[[class]]\nname = \"a\"\nweight = {weight}"),
            (3, 1),
            &["0.001 to 1000"],
        );
    }
}

/// More than the daemon can follow would be let alone in silence.
#[test]
fn as_many_targets_as_are_followed() {
    let classes = |count: usize| -> String {
        (0..count).map(|at| format!("[[class]]\nname = \"c{at}\"\nlatency_ms_max = 60\n")).collect()
    };
    assert!(parse(&classes(16)).is_ok());
    assert_refused(&classes(17), (51, 1), &["\"c16\" is one too many", "16 classes"]);
}

#[test]
fn times_that_contradict_each_other() {
    assert_refused(
        "[gate]\nhold_ms_max = 600\nidle_in_transaction_ms = 700",
        (3, 1),
        &["must be longer than", "700.0 ms"],
    );
    assert_refused("[gate]\nhold_ms_max = 50", (2, 1), &["`idle_in_transaction_ms` (100.0 ms)"]);
    assert_refused(
        "[gate]\nstall_ms = 30000",
        (2, 1),
        &["`hold_ms_max` (30.00 s)", "lower `stall_ms`"],
    );
    assert_refused(
        "[gate]\nhold_ms_max = 600\nanticipation_us = 700000",
        (3, 1),
        &["`anticipation_us` (700.0 ms)"],
    );
}

#[test]
fn words_that_are_not_known() {
    assert_refused(
        "[gate]\nmode = \"dryrun\"",
        (2, 1),
        &["knows no \"dryrun\"", "Did you mean \"dry-run\"?", "\"enforce\""],
    );
    assert_refused(
        "[[class]]\nname = \"a\"\nweight_of = \"users\"",
        (3, 1),
        &["Did you mean \"user\"?"],
    );
}

#[test]
fn classes_that_cannot_be() {
    assert_refused("[[class]]\nname = \"a\"\n[[class]]\nname = \"a\"", (4, 1), &["declared twice"]);
    assert_refused(
        "[[class]]\nname = \"default\"\n[[class]]\nname = \"default\"",
        (4, 1),
        &["declared twice"],
    );
    assert_refused("[[class]]\nweight = 2", (1, 1), &["no name", "name = \"...\""]);
    assert_refused("[[class]]\nname = \"\"", (2, 1), &["`name` is empty"]);
    assert_refused(
        &format!("[[class]]\nname = \"{}\"", "x".repeat(65)),
        (2, 1),
        &["65 bytes, and 64 is the most"],
    );
    let many = |count: usize| -> String {
        (0..count).map(|n| format!("[[class]]\nname = \"c{n}\"\n")).collect()
    };
    assert_eq!(parse(&many(63)).unwrap().classes.len(), 64);
    assert_refused(&many(64), (128, 1), &["\"c63\" is one too many", "63 besides"]);
}

#[test]
fn rules_that_decide_nothing_or_too_much() {
    assert_refused("[[rule]]\naccount = \"a\"", (1, 1), &["decides nothing"]);
    assert_refused("[[rule]]\naccount = \"a\"\nbypass = false", (1, 1), &["decides nothing"]);
    assert_refused("[[rule]]\nclass = \"default\"\nbypass = true", (3, 1), &["both"]);
    assert_refused(
        "[[class]]\nname = \"reports\"\n[[rule]]\nclass = \"report\"",
        (4, 1),
        &["no class \"report\"", "Did you mean \"reports\"?", "default, reports"],
    );
}

#[test]
fn rules_that_are_never_reached() {
    let follower = "[[rule]]\naccount = \"a\"\nbypass = true\n";
    assert_refused(
        &format!("[[rule]]\nclass = \"default\"\n{follower}"),
        (3, 1),
        &["never reached", "rule 1 has no condition", "Move rule 1 behind"],
    );
    assert_refused(
        &format!("[[rule]]\naccount = \"*\"\nclass = \"default\"\n{follower}"),
        (4, 1),
        &["never reached"],
    );
    assert_refused(&format!("{follower}{follower}"), (4, 1), &["rule 1 has the same conditions"]);
    assert!(parse(&format!("{follower}[[rule]]\nclass = \"default\"\n")).is_ok());
    let many = |count: usize| -> String {
        (0..count).map(|n| format!("[[rule]]\naccount = \"u{n}\"\nbypass = true\n")).collect()
    };
    assert_eq!(parse(&many(119)).unwrap().rules.len(), 119);
    assert_refused(&many(120), (119 * 3 + 1, 1), &["one too many", "119"]);
}

#[test]
fn addresses_that_fit_nobody() {
    let rule = |address: &str| format!("[[rule]]\naddress = \"{address}\"\nbypass = true");
    assert_refused(&rule("10.0.0.0/33"), (2, 1), &["is no network", "10.0.0.0/8"]);
    assert_refused(&rule("10.0.0/8"), (2, 1), &["is no network"]);
    assert_refused(&rule("db.example"), (2, 1), &["is no address", "not looked up"]);
    assert_refused(&rule(""), (2, 1), &["`address` is empty"]);
    assert_refused(&rule(&"1".repeat(65)), (2, 1), &["65 bytes"]);
    assert_refused(&format!("{}\nport = 3306", rule("local")), (4, 1), &["has no port"]);
    assert!(parse(&rule("10.0.*")).is_ok());
    assert!(parse(&rule("local")).is_ok());
}

#[test]
fn a_file_that_is_not_there_says_so() {
    let error = load(Path::new("no-such-directory/gate.toml")).unwrap_err().to_string();
    assert!(error.contains("cannot read the configuration no-such-directory/gate.toml"), "{error}");
    assert!(error.contains("--config"), "{error}");
}

#[test]
fn a_file_that_is_no_text_says_where() {
    let directory = std::env::temp_dir().join(format!("headworks-config-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("latin1.toml");
    std::fs::write(&path, b"[gate]\n# caf\xe9\n").unwrap();
    let error = load(&path).unwrap_err().to_string();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(error.contains("latin1.toml:2:6: this byte is no UTF-8"), "{error}");
}

#[test]
fn a_reload_empties_removed_classes_and_keeps_an_open_gate_open() {
    let region = region();
    let full = parse(
        "[gate]\nparallelism = 5\n[[class]]\nname = \"a\"\nweight = 3\n[[rule]]\nclass = \"a\"",
    )
    .unwrap();
    full.apply(&region);
    assert_eq!(region.classes[1].name.get().to_display(), "a");
    assert_eq!(region.control.settings(), full.settings);
    region.set_off(true);
    parse("").unwrap().apply(&region);
    assert_eq!(region.classes[0].name.get().to_display(), "default");
    assert!(region.classes[1].name.get().bytes().is_empty());
    assert!(region.control.settings().off);
    let identity = Identity {
        account: Text::new(b"a"),
        database: Text::new(b""),
        application: Text::new(b""),
        address: Text::new(b""),
        local_port: 0,
    };
    assert_eq!(region.rules.classify(&identity).0.class, 0);
}

#[test]
fn a_reload_leaves_p_to_the_search_and_a_p_that_is_fixed_is_there_to_stay() {
    let region = region();
    let searched = parse("").unwrap();
    searched.apply(&region);
    assert_eq!(region.control.settings().parallelism, OPEN);
    let temporary = TemporaryP { parallelism: 24, permanent: 12 };
    region.heartbeat.set_temporary_p(Some(temporary));
    assert!(region.tune_parallelism(&region.control.settings(), 24));
    searched.apply(&region);
    assert_eq!(region.control.settings().parallelism, 24);
    assert_eq!(region.heartbeat.temporary_p(), Some(temporary));
    parse("[gate]\nparallelism = 24").unwrap().apply(&region);
    assert_eq!((region.control.settings().parallelism, region.heartbeat.temporary_p()), (24, None));
}
