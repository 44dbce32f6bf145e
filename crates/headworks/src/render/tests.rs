use super::sample::{busy, dry_run};
use super::*;
use crate::slo::SloStatus;

fn plain(status: &Status) -> String {
    status_text(status, 140, false)
}

fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn a_gate_under_load_shows_the_figures_that_matter() {
    let text = plain(&busy());
    assert!(
        text.starts_with(
            "mariadbd: the gate is closed: at most P = 16 sessions hold a permit at once\n"
        ),
        "{text}"
    );
    assert_says(
        &text,
        &[
            "1001 requests/s, 50.2 turns/s (last 5.00 s)",
            "256 connected: 16 inside (P = 16, quota at its minimum), 200 waiting, 40 idle",
            "241 ms: report0@10.0.0.7 (class reports), all P permits are taken",
            "p50 92.0 ms   p95 276 ms   p99 460 ms   p99.9 828 ms",
            "unfairness U_f 0.012",
            "latency CV 0.310",
            "0.5 all",
            "49 %",
            "Waiting longest (10 of 200)",
            "Inside longest (10 of 16)",
            "web1@local",
            "transaction",
            "permits lent because the session's client was thinking inside a transaction",
            "not_known_here",
        ],
    );
    assert!(!text.contains("stalls"), "a counter of zero is shown:\n{text}");
    assert!(!text.contains("would have changed"), "{text}");
}

#[test]
fn a_gate_whose_p_is_not_found_yet_is_not_called_closed() {
    let status = Status { parallelism: OPEN, parallelism_auto: true, ..busy() };
    let text = plain(&status);
    assert!(text.starts_with("mariadbd: the gate is open for now: P is \"auto\""), "{text}");
    assert!(!text.contains("closed"), "{text}");
    // An operator who sets P = 1024 gets what he wants.
    let text = plain(&Status { parallelism: OPEN, ..busy() });
    assert!(text.contains("closed: at most P = 1024 sessions hold a permit at once\n"), "{text}");
}

#[test]
fn sessions_that_are_never_held_are_told_beside_p() {
    let mut status = busy();
    status.connections[0].reason = "never held".to_owned();
    status.connections[1].reason = "this connection is never held".to_owned();
    let (_, sentence, _) = gate_sentence(&status);
    assert_eq!(
        sentence,
        "closed: at most P = 16 sessions hold a permit at once; 2 others are never held"
    );
}

#[test]
fn nothing_is_cut_off_in_a_narrow_terminal() {
    let place =
        "unix:/run/user/1000/headworks/a-long-name-of-an-instance-mariadb-33211/metrics.sock";
    let status = Status { metrics: vec![place.to_owned()], ..busy() };
    let text = status_text(&status, 80, false);
    assert_says(&text, &[place, " 200\n                waiting, 40 idle\n"]);
}

#[test]
fn what_is_wrong_comes_first_with_its_command() {
    let gate =
        |gate: &str, mode: &str| Status { gate: gate.to_owned(), mode: mode.to_owned(), ..busy() };
    for (status, sentence, command) in [
        (gate("stale", "enforce"), "no heartbeat", "headworks daemon --name mariadbd"),
        (gate("off", "enforce"), "an operator has opened it", "headworks on --name mariadbd"),
        (gate("open", "dry-run"), "a dry run holds no session", "headworks set --mode enforce"),
    ] {
        let text = plain(&status);
        let top: Vec<&str> = text.lines().take(2).collect();
        assert!(top[0].contains(sentence) && top[1].contains(command), "{text}");
    }
    let status = Status {
        stall_bonus: 3,
        config_error: Some("gate.toml:3:1: no key\nfix".to_owned()),
        ..busy()
    };
    let text = plain(&status);
    assert_says(
        &text,
        &[
            "3 more than P are let in",
            "last reload was refused",
            "  gate.toml:3:1: no key\n  fix\n",
            "headworks reload",
        ],
    );
}

#[test]
fn metrics_that_are_not_served_are_shown_beside_a_configuration_that_is_in_force() {
    let error = "cannot serve metrics on 127.0.0.1:9: taken\n  free the port".to_owned();
    let log = "/run/headworks/mariadbd/daemon.log".to_owned();
    let text = plain(&Status { metrics_error: Some(error), log: Some(log), ..busy() });
    assert_says(
        &text,
        &[
            "Metrics are not served where the configuration says",
            "  cannot serve metrics on 127.0.0.1:9: taken\n    free the port\n",
            "headworks reload --name mariadbd   # once the address can be had",
            "decisions     /run/headworks/mariadbd/daemon.log",
        ],
    );
    assert!(!text.contains("refused"), "{text}");
}

#[test]
fn a_target_that_cannot_be_held_is_shown_with_its_gap_and_what_to_do() {
    let target = SloStatus {
        class: "checkout".to_owned(),
        percentile: 99.9,
        target_ms: 60.0,
        latency_ms: Some(180.0),
        standing: "infeasible".to_owned(),
        gap: Some(3.0),
        weight: 1.0,
        windows: 40,
        windows_held: 2,
    };
    let text = plain(&Status { targets: vec![target.clone()], ..busy() });
    assert_says(
        &text,
        &["p99.9 180.0 of 60.0 ms, infeasible here: 3.00 times", "mend: raise latency_ms_max"],
    );
    let held = SloStatus { standing: "held".to_owned(), gap: None, ..target };
    assert!(!plain(&Status { targets: vec![held], ..busy() }).contains("mend:"));
}

#[test]
fn a_dry_run_shows_what_the_gate_would_have_changed() {
    let text = plain(&dry_run());
    assert_says(
        &text,
        &[
            "What the gate would have changed",
            "12345 turns of 30.0 s replayed with P = 16: 83.4 %",
            "87.5 %",
        ],
    );
    assert!(text.contains("none waits") || text.contains("241 ms"), "{text}");
}

#[test]
fn without_color_there_is_no_escape_sequence_whatever_clients_say() {
    let mut status = busy();
    status.connections[0].account = "x\x1b[31m\u{9b}2J\r".to_owned();
    status.connections[0].reason = "\x07".to_owned();
    status.classes[0].name = "\x1bc".to_owned();
    let text = plain(&status);
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    assert!(status_text(&busy(), 100, true).contains("\x1b[32m"));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [60, 80, 120, 200] {
        for status in [busy(), dry_run()] {
            let text = status_text(&status, width, false);
            let body = text.lines().skip_while(|line| !line.is_empty());
            for line in body.filter(|line| !line.contains("replayed with")) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn a_gate_without_any_user_is_shown_too() {
    let text = plain(&Status::default());
    assert_says(&text, &["no request yet", "none waits", "unfairness U_f -"]);
}
