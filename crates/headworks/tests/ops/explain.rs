//! Why a user waits, and waited.

use serde_json::Value;

use crate::echo::{Echo, NAME, PATIENT};
use crate::support::wait_until;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn a_user_is_told_behind_whom_it_waits_and_afterwards_for_how_long() {
    let config = format!("{PATIENT}[[class]]\nname = \"first\"\n");
    let Some(echo) = Echo::start("threads", &config, &[]) else { return };
    let explain = |target: &str| {
        let text = echo.run.ok(["explain", "--name", NAME, "--json", target]);
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let mut one = echo.client();
    one.send("wait");
    wait_until("one is inside", || echo.run.figure(NAME, "inside") == 1);
    let status = echo.run.status(NAME);
    let first = status["connections"][0]["user"].as_u64().unwrap();
    let mut two = echo.client();
    two.send("next");
    echo.run.wait_for_held(NAME, 1);
    let status = echo.run.status(NAME);
    let second = status["connections"][0]["user"].as_u64().unwrap();
    assert_ne!(first, second);
    let waiting = &explain(&second.to_string())[0];
    assert_eq!(
        (&waiting["state"], waiting["behind"][0]["user"].as_u64()),
        (&"waiting".into(), Some(first))
    );
    assert_eq!(waiting["behind"].as_array().unwrap().len(), 1, "P is 1: {waiting}");
    let text = echo.run.ok(["explain", "--name", NAME, &second.to_string()]);
    assert!(text.contains("all of P = 1 permits were taken and 0 others waited"), "{text}");
    assert!(text.contains(&format!("inside for longest: user {first} (")), "{text}");
    std::thread::sleep(std::time::Duration::from_millis(60));
    echo.go();
    assert_eq!((one.answer(), two.answer()), ("ok wait".to_owned(), "ok next".to_owned()));
    wait_until("it is over", || {
        explain(&second.to_string())[0]["latest_held"][0]["request"].as_u64() == Some(0)
    });
    let over = explain(&second.to_string());
    let held = &over[0]["latest_held"][0];
    assert!(number(&held["gate_ms"]) >= 60.0 && number(&held["database_ms"]) >= 0.0, "{held}");
    assert_eq!(
        (&held["admitted"], held["behind"][0]["user"].as_u64()),
        (&"its turn came".into(), Some(first))
    );
    assert_eq!(number(&over[0]["requests_held"]), 1.0);
    assert!(number(&over[0]["gate_ms_sum"]) >= number(&held["gate_ms"]) - 0.1);
    let one_request = explain("#0");
    assert_eq!(
        (one_request["user"].as_u64(), one_request["waiting_beside"].as_u64()),
        (Some(second), Some(0))
    );
    assert!(echo.run.ok(["explain", "--name", NAME, "#0"]).starts_with("request #0 of user"));
    // The one that was not held has no record; by class, both are told of.
    assert_eq!(explain(&first.to_string())[0]["latest_held"].as_array().unwrap().len(), 0);
    assert_eq!(explain("default").as_array().unwrap().len(), 2);
    for (target, words) in [
        ("not-here", &["no connected session is `not-here`", "for example"][..]),
        ("#1", &["no held request #1", "1 were held so far"]),
        ("#x", &["write #NUMBER"]),
    ] {
        let said = echo.run.refused(["explain", "--name", NAME, target]);
        assert!(words.iter().all(|word| said.contains(word)), "{target}: {said}");
    }
}

#[test]
fn somebody_who_passed_out_of_turn_is_told_why() {
    let config =
        "[gate]\nparallelism = 1\ncount = \"admitted\"\nhold_ms_max = 600\nstall_ms = 500\n";
    let Some(echo) = Echo::start("threads", config, &[]) else { return };
    let (mut one, mut two) = (echo.client(), echo.client());
    echo.run.ok(["set", "--name", NAME, "--stall-ms", "3000000"]);
    one.send("wait");
    wait_until("one is inside", || echo.run.figure(NAME, "inside") == 1);
    two.send("next");
    assert_eq!(two.answer(), "ok next");
    two.send("more");
    let text = || echo.run.ok(["explain", "--name", NAME, "#0"]);
    wait_until("it is over", || {
        echo.run.headworks(["explain", "--name", NAME, "#0"]).output().unwrap().status.success()
    });
    assert!(text().contains("let pass: it was held for the longest time allowed"), "{}", text());
    wait_until("the log says so", || echo.said.lock().unwrap().contains("x hold_limit"));
    echo.go();
    assert_eq!(one.answer(), "ok wait");
}
