//! Watches a throughput for a lasting change.
//!
//! CUSUM: deviations from the mean, in units of their usual size and less a bit that is forgiven,
//! are summed up in both directions; noise takes the sums back to zero, a shift does not.

/// Slices after which the mean is trusted.
const LEARN: u32 = 10;

/// Least usual size of a deviation, relative to the mean.
const NOISE_MIN: f64 = 0.03;

/// What is forgiven of each deviation, and the sum that counts as a shift, in usual deviations.
const FORGIVEN: f64 = 0.75;
const ALARM: f64 = 9.0;

/// Deviation beyond which a single slice adds no more: one stall of the disk is no shift.
const ONCE_MAX: f64 = 3.0;

/// Weight of a slice in the running mean: slow drifts are followed, not reported.
const FOLLOW: f64 = 0.05;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    count: u32,
    mean: f64,
    squares: f64,
    up: f64,
    down: f64,
}

/// Usual size of a deviation, relative to the mean, before anything is known of it.
const NOISE_FIRST: f64 = 0.1;

impl Watch {
    /// Expects this throughput, which others have measured.
    pub(super) fn expecting(rate: f64) -> Watch {
        let usual = NOISE_FIRST * rate;
        Watch { count: LEARN, mean: rate, squares: usual * usual, ..Watch::default() }
    }

    /// Takes the throughput of a slice; says whether it has shifted.
    pub(super) fn shifted(&mut self, rate: f64, _seconds: f64) -> bool {
        self.count = self.count.saturating_add(1);
        let weight = (1.0 / f64::from(self.count)).max(FOLLOW);
        let delta = rate - self.mean;
        if self.count <= LEARN {
            self.mean += weight * delta;
            self.squares += weight * (delta * (rate - self.mean) - self.squares);
            return false;
        }
        let usual = self.squares.max(0.0).sqrt().max(NOISE_MIN * self.mean).max(1e-9);
        let deviation = (delta / usual).clamp(-ONCE_MAX, ONCE_MAX);
        self.up = (self.up + deviation - FORGIVEN).max(0.0);
        self.down = (self.down - deviation - FORGIVEN).max(0.0);
        if deviation.abs() < 2.0 {
            self.mean += weight * delta;
            self.squares += weight * (delta * (rate - self.mean) - self.squares);
        }
        self.up > ALARM || self.down > ALARM
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Sum of four even draws: close enough to a bell.
        (0..4).map(|at| f64::from((*state >> (16 + 8 * at)) as u8) / 255.0 - 0.5).sum::<f64>()
    }

    #[test]
    fn noise_and_a_single_stall_are_no_shift_and_a_step_is() {
        let mut state = 9;
        let mut watch = Watch::default();
        let mut alarms = 0;
        for at in 0..2_000 {
            let rate = if at % 200 == 150 { 100.0 } else { 1_000.0 + 40.0 * noise(&mut state) };
            alarms += u32::from(watch.shifted(rate, 0.3));
        }
        assert_eq!(alarms, 0);
        let late = (0..20).position(|_| watch.shifted(800.0 + 40.0 * noise(&mut state), 0.3));
        assert!(late.is_some_and(|slices| slices < 6), "{late:?}");
    }

    #[test]
    fn a_slow_drift_is_followed() {
        let mut watch = Watch::default();
        for at in 0..3_000 {
            assert!(!watch.shifted(1_000.0 + f64::from(at) * 0.2, 0.3));
        }
    }
}
