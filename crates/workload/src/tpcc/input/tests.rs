use super::*;
use crate::tpcc::Mix;

fn inputs(warehouses: i64, seed: u64, terminal: usize) -> Inputs {
    let population = Population::new(warehouses, 1, 0).unwrap();
    Inputs::new(&population, Home::Fixed, MixHandle::new(Mix::STANDARD), seed, terminal)
}

fn draw(mut inputs: Inputs, count: usize) -> Vec<Input> {
    (0..count).map(|_| inputs.draw()).collect()
}

#[test]
fn inputs_are_a_function_of_seed_and_terminal() {
    let first = draw(inputs(4, 9, 3), 500);
    assert_eq!(first, draw(inputs(4, 9, 3), 500));
    assert_ne!(first, draw(inputs(4, 9, 2), 500));
    assert_ne!(first, draw(inputs(4, 8, 3), 500));
}

#[test]
fn terminals_are_dealt_to_warehouses_and_then_to_districts() {
    let at = |terminal| {
        let inputs = inputs(4, 1, terminal);
        (inputs.home_warehouse, inputs.home_district)
    };
    assert_eq!([at(0), at(3), at(4), at(39), at(40)], [(1, 1), (4, 1), (1, 2), (4, 10), (1, 1)]);
}

/// Whether `seen` of `count` is within five standard deviations of the probability `p`.
fn is_about(seen: usize, count: usize, p: f64) -> bool {
    let (seen, count) = (seen as f64, count as f64);
    (seen - count * p).abs() < 5.0 * (count * p * (1.0 - p)).sqrt()
}

#[test]
fn orders_are_as_specified() {
    let all = draw(inputs(4, 1, 0), 100_000);
    let (mut orders, mut rollbacks, mut remote, mut total) = (0, 0, 0, 0);
    for input in &all {
        let Input::NewOrder { warehouse, district, customer, lines, rolls_back } = input else {
            continue;
        };
        orders += 1;
        rollbacks += usize::from(*rolls_back);
        assert_eq!(*warehouse, 1);
        assert!((1..=10).contains(district) && (1..=3_000).contains(customer));
        assert!((5..=15).contains(&lines.len()));
        let absent = lines.iter().filter(|line| line.item == 100_001).count();
        assert_eq!(absent, usize::from(*rolls_back));
        for line in lines {
            total += 1;
            remote += usize::from(line.supply_warehouse != *warehouse);
            assert!((1..=4).contains(&line.supply_warehouse));
            assert!((1..=10).contains(&line.quantity) && (1..=100_001).contains(&line.item));
        }
    }
    assert_eq!(orders, 45_000);
    assert!(is_about(rollbacks, orders, 0.01), "{rollbacks}");
    assert!(is_about(remote, total, 0.01), "{remote} of {total}");
}

#[test]
fn payments_are_as_specified() {
    let all = draw(inputs(4, 1, 5), 100_000);
    let (mut payments, mut by_name, mut remote) = (0, 0, 0);
    for input in &all {
        let Input::Payment {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer,
            amount_cents,
        } = input
        else {
            continue;
        };
        payments += 1;
        by_name += usize::from(matches!(customer, Selector::LastName(_)));
        remote += usize::from(customer_warehouse != warehouse);
        assert!(customer_warehouse != warehouse || customer_district == district);
        assert!((100..=500_000).contains(amount_cents));
    }
    assert_eq!(payments, 43_000);
    assert!(is_about(by_name, payments, 0.6), "{by_name}");
    assert!(is_about(remote, payments, 0.15), "{remote}");
}

#[test]
fn one_warehouse_has_no_other() {
    for input in draw(inputs(1, 1, 0), 10_000) {
        match input {
            Input::NewOrder { lines, .. } => {
                assert!(lines.iter().all(|line| line.supply_warehouse == 1));
            }
            Input::Payment { customer_warehouse, .. } => assert_eq!(customer_warehouse, 1),
            _ => {}
        }
    }
}

#[test]
fn pauses_do_not_change_what_is_asked_for() {
    let mut hasty = inputs(4, 9, 3);
    let mut patient = inputs(4, 9, 3);
    for _ in 0..100 {
        let input = patient.draw();
        patient.pauses(input.transaction());
        assert_eq!(input, hasty.draw());
    }
}

#[test]
fn users_think_as_long_as_specified() {
    let mut inputs = inputs(1, 1, 0);
    let mut sum = 0.0;
    for _ in 0..50_000 {
        let (keying, thinking) = inputs.pauses(Transaction::NewOrder);
        assert_eq!(keying, Duration::from_secs(18));
        assert!(thinking <= Duration::from_secs(120));
        sum += thinking.as_secs_f64();
    }
    // Cutting off at ten means takes e^-10 of the mean away; the standard error is 12 / √50,000 =
    // 0.054.
    assert!((sum / 50_000.0 - 12.0).abs() < 0.27, "{}", sum / 50_000.0);
}
