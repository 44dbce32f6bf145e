use std::collections::{BTreeMap, HashMap};

use super::*;

const DRAWS: u64 = 200_000;

fn inputs(core: Core, records: &Records) -> Inputs {
    Inputs::new(core, core.popularity(), records.clone(), 5, 0)
}

/// How often each record is requested.
fn counts(inputs: &mut Inputs) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for _ in 0..DRAWS {
        *counts.entry(inputs.number()).or_default() += 1;
    }
    counts
}

/// P(rank) among RANKS: k^−0.99 / 26.469 (the sum that YCSB's sources give for 10^10).
fn probability(rank: u64) -> f64 {
    (rank as f64).powf(-0.99) / 26.469_028_201_783_02
}

#[test]
fn popular_records_are_scattered_and_as_popular_as_their_ranks() {
    const RECORDS: u64 = 1_000;
    let counts = counts(&mut inputs(Core::A, &Records::loaded(RECORDS)));
    // A record's expected share: the popularity of its ranks, here of the first 10^5, and its share
    // of the rest.
    let mut due: HashMap<u64, f64> = HashMap::new();
    let mut first = 0.0;
    for rank in 1..=100_000 {
        *due.entry(scramble(rank) % RECORDS).or_default() += probability(rank);
        first += probability(rank);
    }
    let rest = (1.0 - first) / RECORDS as f64;
    for (number, count) in &counts {
        let expected = DRAWS as f64 * (due.get(number).copied().unwrap_or(0.0) + rest);
        let bound = 6.0 * expected.sqrt() + 1.0;
        assert!((*count as f64 - expected).abs() < bound, "{number}: {count}, not {expected}");
    }
    assert_eq!(counts.len() as u64, RECORDS, "every record is asked for now and then");
    let mut sorted: Vec<_> = counts.into_iter().collect();
    sorted.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let numbers: Vec<u64> = sorted.iter().map(|&(number, _)| number).collect();
    assert_eq!(numbers[..2], [scramble(1) % RECORDS, scramble(2) % RECORDS]);
}

#[test]
fn the_latest_are_asked_for_most_and_new_ones_as_soon_as_they_are_there() {
    const RECORDS: u64 = 1_000;
    let records = Records::loaded(RECORDS);
    let mut reader = inputs(Core::D, &records);
    let zeta: f64 = (1..=RECORDS).map(|k| (k as f64).powf(-0.99)).sum();
    let share = |counts: &BTreeMap<u64, u64>, number| {
        counts.get(&number).copied().unwrap_or(0) as f64 / DRAWS as f64
    };
    let before = counts(&mut reader);
    // Standard deviation of the share of the first rank, 0.13: 0.0008.
    assert!((share(&before, RECORDS - 1) - 1.0 / zeta).abs() < 0.004);
    assert!((share(&before, RECORDS - 2) - 2f64.powf(-0.99) / zeta).abs() < 0.004);
    let number = records.claim();
    assert_eq!(counts(&mut reader).get(&number), None, "asked for before it is there");
    records.acknowledge(number);
    let after = counts(&mut reader);
    assert!((share(&after, number) - 1.0 / zeta).abs() < 0.004);
    assert!((share(&after, RECORDS - 1) - 2f64.powf(-0.99) / zeta).abs() < 0.004);
}

#[test]
fn uniform_means_all_alike() {
    let records = Records::loaded(100);
    let mut inputs = Inputs::new(Core::C, Popularity::Uniform, records, 5, 0);
    let counts = counts(&mut inputs);
    // 2,000 each, standard deviation 44: five of them.
    assert!(counts.len() == 100 && counts.values().all(|count| count.abs_diff(2_000) < 220));
}

#[test]
fn a_user_repeats_from_its_seed_and_differs_from_others() {
    let draw = |seed, number| {
        let mut inputs =
            Inputs::new(Core::F, Popularity::Zipfian, Records::loaded(50), seed, number);
        (0..50).map(|_| inputs.draw()).collect::<Vec<_>>()
    };
    assert_eq!(draw(1, 2), draw(1, 2));
    assert_ne!(draw(1, 2), draw(1, 3));
    assert_ne!(draw(1, 2), draw(2, 2));
}

#[test]
fn an_insert_that_was_given_up_leaves_no_gap() {
    let records = Records::loaded(10);
    let mut inputs = inputs(Core::D, &records);
    let insert = |inputs: &mut Inputs| loop {
        if let Input::Insert(number, _) = inputs.draw() {
            return number;
        }
    };
    assert_eq!(insert(&mut inputs), 10);
    assert_eq!(insert(&mut inputs), 10, "the first one was not acknowledged");
    inputs.inserted();
    assert_eq!((insert(&mut inputs), records.there()), (11, 11));
}

#[test]
fn scans_have_all_lengths_and_added_records_are_found_by_them() {
    let records = Records::loaded(100);
    let mut inputs = inputs(Core::E, &records);
    let mut lengths = [0u32; SCAN_MAX + 1];
    let mut old = true;
    for _ in 0..50_000 {
        match inputs.draw() {
            Input::Scan(from, length) => {
                lengths[length] += 1;
                old &= (0..100).any(|number| Key::of(number) == from);
            }
            Input::Insert(..) => {}
            other => panic!("{other:?} is no part of E"),
        }
    }
    assert!(old, "only what is there is asked for");
    // 47,500 scans: 475 of each length, standard deviation 22: five of them.
    assert!(lengths[0] == 0 && lengths[1..].iter().all(|count| count.abs_diff(475) < 110));
    inputs.inserted();
    for _ in 0..50 {
        let number = records.claim();
        records.acknowledge(number);
    }
    assert!(counts(&mut inputs).keys().any(|&number| number > 110));
}
