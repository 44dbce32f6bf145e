//! Claims, picture and page, on a record whose numbers are known.

use headworks_rig::machine::Load;

use super::{AS_IS, CLAIMS, GATED, POOL, USERS_FEW, USERS_MANY, draw, report};
use crate::record::read_json;
use crate::served::{Client, TPS, UNFAIRNESS, measure};
use crate::sweep::analyse::verdicts;
use crate::sweep::record::{ArmRecord, Point, Record, Run};

/// Every user commits `transactions` transactions of `latency_us` in a window of 10 s and issues 20
/// requests for each; the first user only half as many.
fn run(users: f64, transactions: usize, latency_us: u32) -> Run {
    let client = |user: usize| {
        let transactions = if user == 0 { transactions / 2 } else { transactions };
        Client {
            requests: 20 * transactions as u64,
            retries: 0,
            latencies_us: vec![latency_us; transactions],
        }
    };
    let clients: Vec<Client> = (0..users as usize).map(client).collect();
    measure(&clients, 10.0, [Load::default(); 2])
}

type Cell = (&'static str, f64, usize, u32);

fn record(cells: &[Cell]) -> Record {
    let mut arms: Vec<ArmRecord> = Vec::new();
    for &(arm, at, transactions, latency_us) in cells {
        let runs = (1..=3).map(|round| run(at, round * transactions, latency_us)).collect();
        let point = Point { at, runs };
        match arms.iter_mut().find(|each| each.arm == arm) {
            Some(each) => each.points.push(point),
            None => {
                let setup = [("workload".to_owned(), "a workload".to_owned())].into();
                arms.push(ArmRecord { arm: arm.to_owned(), setup, points: vec![point] });
            }
        }
    }
    let mut record = Record::of(arms);
    record.header.id = super::ID.to_owned();
    record.header.title = "A <title> & more".to_owned();
    record
}

fn full_record() -> Record {
    record(&[
        (AS_IS, USERS_MANY, 40, 900_000),
        (AS_IS, USERS_FEW, 680, 22_000),
        (POOL, USERS_MANY, 38, 1_100_000),
        (GATED, USERS_MANY, 50, 300_000),
        (GATED, USERS_FEW, 680, 22_000),
    ])
}

#[test]
fn numbers_follow_from_the_record() {
    let record = full_record();
    let numbers = &record.arms[2].points[0].runs[1].numbers;
    // The middle round, with 100 transactions a user: 255 × 100 + 50 = 25,550 in 10 s.
    assert_eq!(numbers[TPS], 2555.0);
    // The mean is 25,550 / 256 transactions; the first user is below it by that mean less 50.
    let mean = 25_550.0 / 256.0;
    assert!((numbers[UNFAIRNESS] - (mean - 50.0) / mean).abs() < 1e-12);
}

#[test]
fn verdicts_say_what_holds() {
    let verdicts = verdicts(CLAIMS, "rounds", &full_record());
    let holds: Vec<bool> = verdicts.iter().map(|verdict| verdict.holds).collect();
    // 50/40 = 1.25 and 50/38 = 1.32 are enough; so are 300/900 = 0.33 and 300/1100 = 0.27; half a
    // share is not fair.
    assert_eq!(holds, [true, true, true, true, false, true]);
    assert!((verdicts[0].ours.unwrap() - 1.25).abs() < 1e-9);
}

#[test]
fn an_arm_that_did_not_run_proves_nothing() {
    let record = record(&[(AS_IS, USERS_MANY, 40, 900_000)]);
    let verdicts = verdicts(CLAIMS, "rounds", &record);
    assert!(verdicts.iter().all(|verdict| !verdict.holds && verdict.ours.is_none()));
    assert!(verdicts[0].note.contains("not measured"));
    well_formed(&draw::picture(&record).unwrap());
}

#[test]
fn nobody_served_still_has_a_picture() {
    let cells = [(AS_IS, USERS_MANY, 0, 0), (GATED, USERS_MANY, 0, 0)];
    well_formed(&draw::picture(&record(&cells)).unwrap());
}

#[test]
fn picture_page_and_text_say_what_was_measured() {
    let directory = std::env::temp_dir().join(format!("headworks-gate-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    crate::sweep::write(&directory, &full_record()).unwrap();
    let outcome = report(&directory, true).unwrap();
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let svg = read("gate-mariadb.svg");
    well_formed(&svg);
    assert!(svg.contains("behind the gate") && svg.contains("2,555"));
    let page = read("gate-mariadb.html");
    assert!(page.contains("A &lt;title&gt; &amp; more") && !page.contains("<title> &"));
    assert_eq!(page.matches("aria-label=\"holds\"").count(), 5);
    assert!(!page.contains("src=") && !page.contains("http-equiv"), "the page needs nothing else");
    let text = outcome.text;
    assert!(text.contains("✗ 256 users: unfairness") && text.contains("2,555"), "{text}");
    let record: Record = read_json(&directory.join("gate-mariadb.json")).unwrap();
    assert_eq!(record.verdicts, outcome.verdicts);
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Every tag is closed in order, and no attribute is broken by a quote.
fn well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(begin) = rest.find('<') {
        let end = begin + rest[begin..].find('>').expect("a tag that does not end");
        let tag = &rest[begin + 1..end];
        rest = &rest[end + 1..];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') && !tag.starts_with(['?', '!']) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}
