//! Watches throughput, service time and mix for a lasting change.
//!
//! CUSUM sums up deviations from the mean in both directions, in units of their usual size and less
//! a bit that is forgiven. Noise takes the sums back to zero, a shift does not.

/// Slices after which the mean is trusted.
const LEARN: u32 = 10;

/// Least usual size of a deviation, relative to the mean.
const NOISE_MIN: f64 = 0.03;

/// What is forgiven of each deviation, and the sum that counts as a shift, in usual deviations.
const FORGIVEN: f64 = 0.75;
const ALARM: f64 = 9.0;

/// Deviation beyond which a single slice adds no more: one stall of the disk is no shift.
const ONCE_MAX: f64 = 3.0;

/// The largest shift that counts as noise once the machine has shown it.
const SWING_MAX: f64 = 0.3;

/// Weight of a slice in the running mean: slow drifts are followed, not reported.
const FOLLOW: f64 = 0.05;

use super::Why;
use super::slice::SliceResult;

/// What is watched while P is held, and the mix also while it is searched for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watches {
    throughput: Watch,
    service: Watch,
    mix: Watch,
    /// How far the latest shift was, relative to the mean, and the farthest one that was found to
    /// be the machine's.
    shift: f64,
    swing: f64,
}

impl Watches {
    /// P is another one: what depends on it is learnt again. `throughput_per_s` is what others have
    /// measured there.
    pub(super) fn moved(&mut self, throughput_per_s: f64) {
        self.throughput = Watch::expecting(throughput_per_s);
        self.service = Watch::default();
    }

    /// The latest shift was the machine's: smaller ones are noise from now on.
    pub(super) fn excuse(&mut self) {
        self.swing = self.swing.max(self.shift).min(SWING_MAX);
    }

    /// Throughput that the P that is held usually has; zero while that is learnt.
    pub(super) fn usual(&self) -> f64 {
        if self.throughput.count >= LEARN { self.throughput.mean } else { 0.0 }
    }

    /// Takes what a slice showed of the mix, at whatever P; says whether that has shifted.
    pub(super) fn mix_shifted(&mut self, shown: &SliceResult) -> bool {
        let shifted = shown.requests.is_some_and(|requests| self.mix.shifted(requests, NOISE_MIN));
        if shifted {
            self.mix = Watch::default();
        }
        shifted
    }

    /// Takes what a slice showed at the P that is held; says what has shifted.
    pub(super) fn shifted(&mut self, shown: &SliceResult) -> Option<Why> {
        let noise = self.swing.max(NOISE_MIN);
        let service = shown.service_s.filter(|&seconds| self.service.shifted(seconds, noise));
        if self.throughput.shifted(shown.rate, noise) {
            self.shift = self.throughput.distance(shown.rate);
            return Some(Why::Throughput);
        }
        self.shift = self.service.distance(service?);
        Some(Why::ServiceTime)
    }
}

/// A CUSUM. See the module.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    count: u32,
    mean: f64,
    squares: f64,
    up: f64,
    down: f64,
}

/// Usual size of a deviation, relative to the mean, before anything is known of it.
const NOISE_FIRST: f64 = 0.1;

impl Watch {
    /// Expects this value, which others have measured.
    fn expecting(rate: f64) -> Watch {
        let usual = NOISE_FIRST * rate;
        Watch { count: LEARN, mean: rate, squares: usual * usual, ..Watch::default() }
    }

    /// How far a value is from the mean, relative to it.
    fn distance(&self, rate: f64) -> f64 {
        (rate / self.mean.max(1e-9) - 1.0).abs()
    }

    /// Takes the value of a slice; says whether it has shifted. `noise` is the least usual size of
    /// a deviation, relative to the mean.
    fn shifted(&mut self, rate: f64, noise: f64) -> bool {
        self.count = self.count.saturating_add(1);
        let weight = (1.0 / f64::from(self.count)).max(FOLLOW);
        let delta = rate - self.mean;
        if self.count <= LEARN {
            self.mean += weight * delta;
            self.squares += weight * (delta * (rate - self.mean) - self.squares);
            return false;
        }
        let usual = self.squares.max(0.0).sqrt().max(noise * self.mean).max(1e-9);
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
    use super::super::slice::SliceOutcome;
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
            alarms += u32::from(watch.shifted(rate, NOISE_MIN));
        }
        assert_eq!(alarms, 0);
        let late = (0..20).position(|_| watch.shifted(800.0 + 40.0 * noise(&mut state), NOISE_MIN));
        assert!(late.is_some_and(|slices| slices < 6), "{late:?}");
    }

    #[test]
    fn each_shift_is_called_by_its_name() {
        let shown = |rate, service_s, requests| SliceResult {
            outcome: SliceOutcome::Telling,
            turns: 400,
            rate,
            seconds: 0.3,
            service_s: Some(service_s),
            requests: Some(requests),
        };
        let usual = shown(1_000.0, 0.016, 25.0);
        let until = |other: SliceResult| {
            let mut watches = Watches::default();
            let mut look =
                |shown| watches.mix_shifted(&shown).then_some(Why::Mix).or(watches.shifted(&shown));
            assert!((0..100).all(|_| look(usual).is_none()));
            (0..10).find_map(|_| look(other))
        };
        assert_eq!(until(shown(800.0, 0.016, 25.0)), Some(Why::Throughput));
        assert_eq!(until(shown(1_000.0, 0.022, 25.0)), Some(Why::ServiceTime));
        assert_eq!(until(shown(1_000.0, 0.016, 20.0)), Some(Why::Mix));
        assert_eq!(until(shown(1_010.0, 0.0158, 25.2)), None);
    }

    #[test]
    fn a_machine_that_moves_raises_the_threshold() {
        let shown = |rate| SliceResult {
            outcome: SliceOutcome::Telling,
            turns: 400,
            rate,
            seconds: 0.3,
            service_s: None,
            requests: None,
        };
        // For three seconds of twelve the machine is slower by a fifth.
        let alarms = |watches: &mut Watches, rate| {
            watches.moved(1_000.0);
            let rate = |at: u32| if at % 40 < 30 { 1_000.0 } else { rate };
            (0..400).filter(|&at| watches.shifted(&shown(rate(at))).is_some()).count()
        };
        let mut watches = Watches::default();
        assert!(alarms(&mut watches, 800.0) > 0);
        watches.excuse();
        assert_eq!(alarms(&mut watches, 800.0), 0);
        assert!(alarms(&mut watches, 300.0) > 0, "the load has turned");
    }

    #[test]
    fn a_slow_drift_is_followed() {
        let mut watch = Watch::default();
        for at in 0..3_000 {
            assert!(!watch.shifted(1_000.0 + f64::from(at) * 0.2, NOISE_MIN));
        }
    }
}
