//! Whether the processors are saturated: the daemon's side of `policy::permit::Saturation`.

use headworks_policy::Nanos;
use headworks_policy::permit::Saturation;
use headworks_region::Mapping;

/// Time over which idle processors are counted. The kernel counts in hundredths of a second.
const WINDOW: Nanos = Nanos::from_millis(200);

/// See the module.
#[derive(Debug)]
pub(super) struct Watch {
    saturation: Saturation,
    cores: u32,
    since: Nanos,
    /// Ticks of all processors and the idle ones of them, at the start of the window.
    before: Option<(u64, u64)>,
}

impl Watch {
    pub(super) fn new(cores: u32) -> Watch {
        Watch { saturation: Saturation::default(), cores, since: Nanos(0), before: None }
    }

    /// Called many times in a window; writes down the result of the last one.
    pub(super) fn tick(&mut self, region: &Mapping, now: Nanos) {
        self.saturation.sample(region.working());
        if now.since(self.since) < WINDOW {
            return;
        }
        self.since = now;
        let ticks = std::fs::read_to_string("/proc/stat").ok().and_then(|text| ticks(&text));
        // If it cannot be read, processors count as idle: permits are then lent at once.
        let idle = match (self.before, ticks) {
            (Some(before), Some(after)) if after.0 > before.0 => {
                after.1.saturating_sub(before.1) as f64 / (after.0 - before.0) as f64
            }
            _ => 1.0,
        };
        self.before = ticks;
        region.control.set_saturated(self.saturation.conclude(idle, self.cores));
    }
}

/// Ticks of all processors, and those in which they were idle, waited for storage, or ran work of
/// low priority (`nice`).
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [_, nice, _, idle, waiting, ..] = fields[..] else { return None };
    // The last two (guests) are part of the first two.
    Some((fields.iter().take(8).sum(), nice + idle + waiting))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_ticks_are_told_from_all() {
        let stat = "cpu  100 20 30 400 50 6 7 8 90 9\ncpu0 1 2 3 4\n";
        assert_eq!(ticks(stat), Some((621, 470)));
        assert_eq!(ticks("intr 5"), None);
        assert_eq!(ticks("cpu  1 2 3"), None);
    }
}
