//! Random numbers, and Zipf's law.

pub(crate) use headworks_policy::random::Random as Rng;

/// Ranks by Zipf's law, by their cumulative probabilities.
#[derive(Clone, Debug)]
pub(crate) struct Zipf(Vec<f64>);

impl Zipf {
    pub(crate) fn new(ranks: u32, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let mut cumulated: Vec<f64> = (1..=ranks.max(1))
            .map(|rank| {
                sum += f64::from(rank).powf(-exponent);
                sum
            })
            .collect();
        for value in &mut cumulated {
            *value /= sum;
        }
        Zipf(cumulated)
    }

    pub(crate) fn draw(&self, rng: &mut Rng) -> u32 {
        let unit = rng.unit();
        self.0.partition_point(|value| *value <= unit).min(self.0.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_their_laws() {
        let mut rng = Rng::new(1);
        let zipf = Zipf::new(4, 1.0);
        let mut counts = [0u32; 4];
        for _ in 0..25_000 {
            counts[zipf.draw(&mut rng) as usize] += 1;
        }
        // Shares 12/25, 6/25, 4/25, 3/25.
        for (count, wanted) in counts.iter().zip([12_000u32, 6_000, 4_000, 3_000]) {
            assert!(count.abs_diff(wanted) < 400, "{counts:?}");
        }
    }
}
