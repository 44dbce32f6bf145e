//! Prints the tables of the simulation: `cargo run --release -p headworks-store --example learn --
//! product|figures|scenarios|disks|flash|scale [day] [held-out] [seeds]`.

use headworks_store::learner::Learner;
use headworks_store::sim::request::Stack;
use headworks_store::sim::{
    DEVELOPMENT, HELD_OUT, array::Kind, figure, product, scale, scenario, stack,
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let mut seeds = if has("held-out") { HELD_OUT } else { DEVELOPMENT };
    if let Some(count) = arguments.iter().find_map(|argument| argument.parse::<u64>().ok()) {
        seeds.end = seeds.start + count;
    }
    let print = |rows: Vec<_>| rows.iter().for_each(|row| println!("{row}"));
    for kind in [Kind::Disks, Kind::Flash] {
        if has("product") {
            for (name, stack) in product::stacks(kind) {
                let points =
                    product::law(stack, if kind == Kind::Disks { 30 } else { 2 }, seeds.start);
                let ratios = points.iter().flat_map(|point| point.ratios);
                let worst = ratios.fold(f64::MAX, f64::min);
                let used =
                    points.iter().map(|point| point.efficiency).sum::<f64>() / points.len() as f64;
                let error = points.iter().map(product::Point::error).fold(0.0, f64::max);
                println!(
                    "{:9} {name:30} worst use ÷ product {worst:.2}, device used {used:.2}, largest error {error:.2}",
                    kind.name()
                );
            }
        }
    }
    for sigma in [0.05, 0.1, 0.2] {
        if has("figures") {
            print(figure::table(sigma, seeds.clone()));
        }
    }
    for sigma in [0.05, 0.1] {
        if has("scenarios") {
            print(scenario::table(sigma, seeds.clone()));
        }
    }
    for (word, kind) in [("disks", Kind::Disks), ("flash", Kind::Flash)] {
        if has(word) {
            print(stack::table(kind, seeds.clone()));
            for learner in [Learner::LogPi, Learner::Depth] {
                for phase in stack::mix(Stack::fair(kind), &learner, 600, seeds.clone()) {
                    println!("{} mix, {learner:?}: {phase:?}", kind.name());
                }
            }
        }
    }
    if has("scale") {
        let hours = if has("day") { 24 } else { 1 };
        for (sigma, loss, load) in [(0.05, 0.01, 0.65), (0.05, 0.01, 1.0), (0.1, 0.1, 0.65)] {
            let seconds = 3_600 * hours;
            let settings = scale::Settings { sigma, loss, load, seconds, ..Default::default() };
            println!("{settings:?}\n  {:?}", scale::scale(settings, seeds.start));
        }
    }
}
