//! Figures for Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::echo::{Echo, NAME, PATIENT};
use crate::support::wait_until;

/// An address that no other process has. The loopback address depends on the process. The kernel
/// gives such ports to no connection.
fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(9_100);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    (Ipv4Addr::new(127, 64 | high, middle, low), NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

/// One answer: its head and its body.
fn ask(mut stream: impl Read + Write, request: &str) -> (String, String) {
    let text = format!("{request} HTTP/1.1\r\nHost: gate\r\nConnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

/// The text of a scrape.
pub fn scrape(socket: &std::path::Path) -> String {
    ask(UnixStream::connect(socket).unwrap(), "GET /metrics").1
}

/// A family of metrics.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    help: String,
    /// By suffix and labels.
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `{a="b",c="d"}`; panics on anything else.
fn labels(text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("labels: {text}"));
        assert!(is_name(name), "label {name}");
        let end = after
            .char_indices()
            .scan(false, |escaped, (at, c)| {
                let ends = c == '"' && !*escaped;
                *escaped = c == '\\' && !*escaped;
                Some((at, ends))
            })
            .find_map(|(at, ends)| ends.then_some(at))
            .expect("a closing quote");
        assert!(labels.insert(name.to_owned(), after[..end].to_owned()).is_none(), "twice: {name}");
        rest = &after[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    labels
}

/// Reads OpenMetrics text as its specification has it, and refuses what that does not allow.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let body = text.strip_suffix("# EOF\n").expect("it ends in EOF");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut seen = BTreeSet::new();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (what, name) = (words.next().unwrap(), words.next().unwrap());
            let value = words.next().unwrap_or_default();
            assert!(is_name(name), "{line}");
            if name != current {
                assert!(!families.contains_key(name), "not together: {line}");
                current = name.to_owned();
            }
            let family = families.entry(name.to_owned()).or_default();
            assert!(family.samples.is_empty(), "metadata after samples: {line}");
            match what {
                "HELP" => family.help = value.to_owned(),
                "TYPE" => family.kind = value.to_owned(),
                "UNIT" => assert!(name.ends_with(&format!("_{value}")), "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        let (name, inside) = match series.split_once('{') {
            Some((name, rest)) => (name, rest.strip_suffix('}').expect("a closing brace")),
            None => (series, ""),
        };
        let family = families.get_mut(&current).unwrap_or_else(|| panic!("{line}"));
        let suffix = name.strip_prefix(&current).unwrap_or_else(|| panic!("{line} in {current}"));
        let allowed: &[&str] = match family.kind.as_str() {
            "gauge" => &[""],
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            kind => panic!("{current} is a {kind}"),
        };
        assert!(allowed.contains(&suffix), "{line}");
        assert!(value.is_finite() && (value >= 0.0 || family.kind == "gauge"), "{line}");
        assert!(seen.insert(series.to_owned()), "twice: {line}");
        family.samples.push((suffix.to_owned(), labels(inside), value));
    }
    for (name, family) in &families {
        assert!(!family.help.is_empty() && !family.kind.is_empty(), "{name} explains itself");
        if family.kind == "histogram" {
            check_histogram(name, family);
        }
    }
    families
}

/// Buckets grow, the last one is everything, and that is the count.
fn check_histogram(name: &str, family: &Family) {
    let mut groups: BTreeMap<BTreeMap<String, String>, (f64, f64)> = BTreeMap::new();
    for (suffix, labels, value) in &family.samples {
        let mut key = labels.clone();
        let bound = key.remove("le");
        match suffix.as_str() {
            "_bucket" => {
                let bound = bound.unwrap_or_else(|| panic!("{name}: a bucket without a bound"));
                let bound: f64 =
                    if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
                let last = groups.entry(key).or_insert((f64::NEG_INFINITY, 0.0));
                assert!(
                    bound > last.0 && *value >= last.1,
                    "{name}: {bound} {value} after {last:?}"
                );
                *last = (bound, *value);
            }
            "_count" => {
                let all = family.samples.iter().filter(|(suffix, labels, _)| {
                    let mut labels = labels.clone();
                    suffix == "_bucket"
                        && labels.remove("le").as_deref() == Some("+Inf")
                        && labels == key
                });
                assert_eq!(all.map(|sample| sample.2).collect::<Vec<_>>(), [*value], "{name}");
            }
            _ => {}
        }
    }
    assert!(groups.values().all(|last| last.0.is_infinite()), "{name} has a last bucket");
}

fn value(families: &BTreeMap<String, Family>, name: &str, label: (&str, &str)) -> f64 {
    let suffix = |kind: &str| match kind {
        "counter" => "_total",
        "histogram" => "_count",
        _ => "",
    };
    let family = families.get(name).unwrap_or_else(|| panic!("{name} is missing"));
    let fits = |sample: &&(String, BTreeMap<String, String>, f64)| {
        sample.0 == suffix(&family.kind)
            && (label.0.is_empty() || sample.1.get(label.0).is_some_and(|found| found == label.1))
    };
    family.samples.iter().find(fits).unwrap_or_else(|| panic!("{name} {label:?}")).2
}

#[test]
fn a_scrape_has_all_figures_with_their_meaning() {
    let free = own_address();
    let config = format!(
        "{PATIENT}metrics = \"{free}\"\n[[class]]\nname = \"od\\\"d\"\nweight = 2.5\n\
         [[rule]]\naddress = \"::1\"\nclass = \"od\\\"d\"\n"
    );
    let Some(echo) = Echo::start("threads", &config, &[]) else { return };
    let socket = echo.run.instance(NAME).join("metrics.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let scrape = || {
        let (head, body) = ask(UnixStream::connect(&socket).unwrap(), "GET /metrics");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(
            head.to_lowercase().contains("content-type: application/openmetrics-text"),
            "{head}"
        );
        parse(&body)
    };
    let before = scrape();
    assert_eq!(value(&before, "headworks_requests", ("class", "default")), 0.0);
    assert_eq!(value(&before, "headworks_class_weight", ("class", "od\\\"d")), 2.5);
    let (mut one, mut two) = (echo.client(), echo.client());
    one.send("wait");
    wait_until("one is inside", || value(&scrape(), "headworks_users", ("state", "inside")) == 1.0);
    two.send("next");
    wait_until("two waits", || value(&scrape(), "headworks_users", ("state", "waiting")) == 1.0);
    echo.go();
    assert_eq!((one.answer(), two.answer()), ("ok wait".to_owned(), "ok next".to_owned()));
    wait_until("both are over", || {
        value(&scrape(), "headworks_requests", ("class", "default")) == 2.0
    });
    let after = scrape();
    for (name, wanted) in [
        ("headworks_admissions", 2.0),
        ("headworks_held_requests", 1.0),
        ("headworks_wait_seconds", 2.0),
        ("headworks_latency_seconds", 2.0),
        ("headworks_parallelism", 1.0),
        ("headworks_parallelism_auto", 0.0),
        ("headworks_quota_requests", 0.0),
        ("headworks_gate_closed", 1.0),
        ("headworks_daemon_stale", 0.0),
        ("headworks_stale", 0.0),
        ("headworks_stalls", 0.0),
        ("headworks_lent", 0.0),
        ("headworks_hold_limit", 0.0),
    ] {
        assert_eq!(value(&after, name, ("", "")), wanted, "{name}");
    }
    // Every counter that `status` has is there under its name.
    let status = echo.run.status(NAME);
    for (name, count) in status["counters"].as_object().unwrap() {
        let found = value(&after, &format!("headworks_{name}"), ("", ""));
        assert_eq!(found, count.as_f64().unwrap(), "{name}");
    }
    let sums = &after["headworks_wait_seconds"].samples;
    let sum = sums.iter().find(|sample| sample.0 == "_sum").unwrap().2;
    assert!(sum > 0.0 && sum < 60.0, "seconds, not nanoseconds: {sum}");
    // The same on TCP, because it was asked for; and nothing else is served.
    let (_, body) = ask(TcpStream::connect(free).unwrap(), "GET /metrics");
    assert_eq!(parse(&body).len(), after.len());
    assert!(ask(TcpStream::connect(free).unwrap(), "GET /secrets").0.contains(" 404 "));
    assert!(ask(TcpStream::connect(free).unwrap(), "DELETE /metrics").0.contains(" 405 "));
    assert!(echo.run.ok(["status", "--name", NAME]).contains(&format!("http://{free}/metrics")));
}

#[test]
fn without_the_key_no_port_is_open() {
    let Some(echo) = Echo::start("threads", PATIENT, &[]) else { return };
    let all = echo.run.status(NAME)["metrics"].as_array().unwrap().clone();
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].as_str().unwrap().starts_with("unix:"));
}

#[test]
fn a_reload_whose_port_is_taken_says_what_is_in_force_and_what_is_not() {
    let first = own_address();
    let with = |address, weight: &str| {
        format!("{PATIENT}metrics = \"{address}\"\n[[class]]\nname = \"web\"\nweight = {weight}\n")
    };
    let Some(echo) = Echo::start("threads", &with(first, "2.0"), &[]) else { return };
    let taken = own_address();
    let other = TcpListener::bind(taken).unwrap();
    echo.run.file("toml", &with(taken, "3.0"));
    let said = echo.run.refused(["reload", "--name", NAME]);
    let mend = format!("headworks reload --name {NAME}");
    for part in
        ["is in force (settings, classes", &format!("cannot serve metrics on {taken}"), &mend]
    {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    let status = echo.run.status(NAME);
    let web = status["classes"].as_array().unwrap().iter().find(|class| class["name"] == "web");
    assert_eq!(web.unwrap()["weight"], 3.0);
    assert!(status["config_error"].is_null(), "{status:#}");
    assert!(status["metrics_error"].as_str().unwrap().contains(&taken.to_string()));
    assert!(status["metrics"].to_string().contains(&first.to_string()), "{status:#}");
    assert!(echo.run.ok(["status", "--name", NAME]).contains("Metrics are not served where"));
    ask(TcpStream::connect(first).unwrap(), "GET /metrics");
    drop(other);
    // A child that another test forks has the listener for a moment, too.
    let reload = || echo.run.headworks(["reload", "--name", NAME]).output().unwrap();
    wait_until("the port is free", || reload().status.success());
    assert!(echo.run.status(NAME)["metrics_error"].is_null());
    ask(TcpStream::connect(taken).unwrap(), "GET /metrics");
    TcpStream::connect(first).unwrap_err();
}

#[test]
fn a_port_that_is_taken_at_the_start_is_shown_until_it_is_free() {
    let taken = own_address();
    let other = TcpListener::bind(taken).unwrap();
    let config = format!("{PATIENT}metrics = \"{taken}\"\n");
    let Some(echo) = Echo::start("threads", &config, &[]) else { return };
    let shown = || echo.run.status(NAME)["metrics_error"].as_str().map(str::to_owned);
    assert!(shown().unwrap().contains(&taken.to_string()));
    drop(other);
    // A child that another test forks has the listener for a moment, too.
    let reload = || echo.run.headworks(["reload", "--name", NAME]).output().unwrap();
    wait_until("the port is free", || reload().status.success());
    assert_eq!(shown(), None);
    ask(TcpStream::connect(taken).unwrap(), "GET /metrics");
}

/// Sets how many descriptors a process may have; returns how many it might have before.
fn limit_descriptors(pid: u32, count: u64) -> u64 {
    let (pid, what) = (pid as libc::pid_t, libc::RLIMIT_NOFILE);
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structures outlive the calls.
    let done = unsafe {
        libc::prlimit(pid, what, std::ptr::null(), &raw mut before) == 0 && {
            let limit = libc::rlimit { rlim_cur: count, ..before };
            libc::prlimit(pid, what, &raw const limit, std::ptr::null_mut()) == 0
        }
    };
    assert!(done, "{}", std::io::Error::last_os_error());
    before.rlim_cur
}

/// Processor time that a process has used, in hundredths of a second.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let mut fields = stat[stat.rfind(')').unwrap()..].split_whitespace().skip(12);
    let mut field = || fields.next().unwrap().parse::<u64>().unwrap();
    field() + field()
}

#[test]
fn a_daemon_without_descriptors_neither_spins_nor_stops_listening() {
    let address = own_address();
    let config = format!("{PATIENT}metrics = \"{address}\"\n");
    let Some(echo) = Echo::start("threads", &config, &[]) else { return };
    let daemon = echo.run.daemon(NAME);
    let instance = echo.run.instance(NAME);
    // Those that it has are enough for its standard streams alone.
    let many = limit_descriptors(daemon, 3);
    // Each waits to be accepted, and the sockets are ready all the time.
    let control = UnixStream::connect(instance.join("control.sock")).unwrap();
    let unix = UnixStream::connect(instance.join("metrics.sock")).unwrap();
    let tcp = TcpStream::connect(address).unwrap();
    let before = ticks(daemon);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let used = ticks(daemon) - before;
    assert!(used < 50, "{used} hundredths of a second of processor time in one");
    limit_descriptors(daemon, many);
    let (head, _) = ask(tcp, "GET /metrics");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(ask(unix, "GET /metrics").0.starts_with("HTTP/1.1 200"));
    drop(control);
    assert_eq!(echo.run.status(NAME)["gate"], "closed");
    assert!(ask(TcpStream::connect(address).unwrap(), "GET /metrics").0.contains(" 200 "));
}
