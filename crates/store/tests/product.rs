//! The product law under fair queueing, and its failure under quanta.

use headworks_store::sim::array::Kind;
use headworks_store::sim::product::{law, stacks};

fn print(name: &str, points: &[headworks_store::sim::product::Point]) {
    for point in points {
        println!(
            "{name:30} {:?} use/product {:.2?} device {:.2} error {:.2} dbt2 {:.1}",
            point.setting,
            point.ratios,
            point.efficiency,
            point.error(),
            point.rate
        );
    }
}

#[test]
fn fair_queueing_at_two_levels_multiplies() {
    for (kind, seconds) in [(Kind::Disks, 30), (Kind::Flash, 1)] {
        for (name, stack) in stacks(kind).into_iter().filter(|(name, _)| !name.contains("quanta")) {
            let points = law(stack, seconds, 1);
            print(&format!("{} {name}", kind.name()), &points);
            for point in points {
                assert!(point.error() <= 0.15, "{name}: {point:?}");
                assert!(point.efficiency > 0.6, "{name}: {point:?}");
            }
        }
    }
}

#[test]
fn stacked_quanta_do_not_multiply() {
    let stacks = stacks(Kind::Disks);
    let (name, stack) = stacks.iter().find(|(name, _)| *name == "quanta, quanta").unwrap();
    let points = law(*stack, 30, 1);
    print(name, &points);
    let worst = points.iter().map(|point| point.ratios.iter().copied().fold(9.0, f64::min));
    let worst = worst.fold(9.0, f64::min);
    assert!(worst < 0.2, "a small share starves: {worst}");
}
