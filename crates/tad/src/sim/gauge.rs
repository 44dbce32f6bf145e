//! Numbers by client that change in steps, with their integrals over time.

use super::CLIENTS;

/// See the module.
///
/// The integral of a number that steps up at `t1` and down at `t2` is `t2 - t1`. So each step adds
/// or subtracts its time, and a read completes open steps. A step is two additions; sums may wrap
/// in between, and are right in the end.
#[derive(Clone, Debug)]
pub(super) struct Gauge {
    by_client: [Cell; CLIENTS],
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    sum: u64,
    value: u32,
}

impl Gauge {
    pub(super) fn new() -> Gauge {
        Gauge { by_client: [Cell { sum: 0, value: 0 }; CLIENTS] }
    }

    pub(super) fn up(&mut self, client: usize, now_ns: u64) {
        let cell = &mut self.by_client[client];
        cell.value += 1;
        cell.sum = cell.sum.wrapping_sub(now_ns);
    }

    pub(super) fn down(&mut self, client: usize, now_ns: u64) {
        let cell = &mut self.by_client[client];
        cell.value -= 1;
        cell.sum = cell.sum.wrapping_add(now_ns);
    }

    /// The number of a client.
    pub(super) fn value(&self, client: usize) -> u32 {
        self.by_client[client].value
    }

    /// Its integral from the very start until now.
    pub(super) fn integral(&self, client: usize, now_ns: u64) -> u64 {
        let cell = self.by_client[client];
        cell.sum.wrapping_add(u64::from(cell.value).wrapping_mul(now_ns))
    }

    /// The integrals of all clients.
    pub(super) fn integrals(&self, now_ns: u64) -> [u64; CLIENTS] {
        std::array::from_fn(|client| self.integral(client, now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_integral_is_right_at_any_time() {
        let mut gauge = Gauge::new();
        gauge.up(1, 10);
        gauge.up(1, 20);
        assert_eq!((gauge.value(1), gauge.integral(1, 30)), (2, 30));
        gauge.down(1, 40);
        gauge.down(1, 50);
        assert_eq!((gauge.value(1), gauge.integral(1, 1_000)), (0, 60));
        assert_eq!(gauge.integrals(1_000).iter().sum::<u64>(), 60);
    }
}
