//! Additive increase, multiplicative decrease: a bound that finds the edge of what a system bears,
//! from nothing but "too much" and "not too much".

/// A bound and how it moves.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Aimd {
    /// The bound.
    pub value: f64,
    /// Added each time when it was not too much.
    pub add: f64,
    /// Multiplied with each time when it was; below one.
    pub factor: f64,
    /// Lower end.
    pub least: f64,
    /// Upper end.
    pub most: f64,
}

impl Aimd {
    /// One step; returns the bound.
    pub fn step(&mut self, too_much: bool) -> f64 {
        let next = if too_much { self.value * self.factor } else { self.value + self.add };
        self.value = next.clamp(self.least, self.most);
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_saws_below_and_around_the_edge_and_stays_in_its_bounds() {
        let mut bound = Aimd { value: 1.0, add: 1.0, factor: 0.9, least: 1.0, most: 1_000.0 };
        let edge = 100.0;
        let mut late = Vec::new();
        for round in 0..1_000 {
            let value = bound.value;
            bound.step(value > edge);
            if round > 200 {
                late.push(value);
            }
        }
        assert!(late.iter().all(|value| (89.0..=101.0).contains(value)));
        for _ in 0..1_000 {
            bound.step(true);
        }
        assert_eq!(bound.value, 1.0);
        for _ in 0..2_000 {
            bound.step(false);
        }
        assert_eq!(bound.value, 1_000.0);
    }
}
