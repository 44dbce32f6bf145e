//! Amounts that are drawn for each request.

use super::rng::Rng;
use crate::model::{Law, Quantity};

/// Every whole number up to here is exact in an f64.
const AMOUNT_MAX: f64 = 9_007_199_254_740_992.0;

/// A law, prepared for drawing.
#[derive(Clone, Debug)]
pub(super) enum Draw {
    Exponential,
    /// The smallest value in parts of the mean, and minus one over the shape.
    Pareto {
        scale: f64,
        power: f64,
    },
    /// Amounts, and their counts added up.
    Histogram(Vec<(u64, u64)>),
}

impl Draw {
    /// How an amount is drawn; nothing if it is fixed.
    pub(super) fn of(amount: &Quantity) -> Option<Draw> {
        match amount {
            Quantity::Fixed(_) | Quantity::Parameter(_) => None,
            Quantity::Drawn(Law::Exponential, _) => Some(Draw::Exponential),
            Quantity::Drawn(Law::Pareto(thousandths), _) => {
                let shape = f64::from(*thousandths) / 1e3;
                Some(Draw::Pareto { scale: (shape - 1.0) / shape, power: -1.0 / shape })
            }
            Quantity::Histogram(amounts) => {
                let mut sum = 0;
                let add = |&(amount, weight): &(u64, u32)| {
                    sum += u64::from(weight);
                    (amount, sum)
                };
                Some(Draw::Histogram(amounts.iter().map(add).collect()))
            }
        }
    }

    /// An amount with this mean.
    pub(super) fn amount(&self, mean: u64, rng: &mut Rng) -> u64 {
        let mean = mean as f64;
        match self {
            Draw::Exponential => rng.exponential(mean).min(AMOUNT_MAX) as u64,
            Draw::Pareto { scale, power } => {
                // 1 - unit is above zero.
                let drawn = mean * scale * (1.0 - rng.unit()).powf(*power);
                drawn.min(AMOUNT_MAX) as u64
            }
            Draw::Histogram(amounts) => {
                let all = amounts.last().map_or(0, |(_, sum)| *sum);
                let drawn = rng.below(all);
                let at = amounts.partition_point(|(_, sum)| *sum <= drawn);
                amounts.get(at).map_or(0, |(amount, _)| *amount)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(amount: &Quantity, mean: u64) -> f64 {
        let mut rng = Rng::new(3);
        let draw = Draw::of(amount).unwrap();
        let draws = 200_000;
        (0..draws).map(|_| draw.amount(mean, &mut rng) as f64).sum::<f64>() / f64::from(draws)
    }

    #[test]
    fn laws_keep_their_means() {
        let fixed = || Box::new(Quantity::Fixed(1_000_000));
        let exponential = Quantity::Drawn(Law::Exponential, fixed());
        assert!((mean(&exponential, 1_000_000) / 1e6 - 1.0).abs() < 0.01);
        // Shape 3: the standard deviation is 0.58 of the mean.
        let pareto = Quantity::Drawn(Law::Pareto(3_000), fixed());
        assert!((mean(&pareto, 1_000_000) / 1e6 - 1.0).abs() < 0.01);
        let histogram = Quantity::Histogram(vec![(100, 9), (0, 0), (1_100, 1)]);
        assert_eq!(histogram.mean(&[]), 200);
        assert!((mean(&histogram, 200) / 200.0 - 1.0).abs() < 0.02);
    }
}
