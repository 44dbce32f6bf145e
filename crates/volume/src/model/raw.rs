//! No model: every command completes at once. Only the cost of the volume itself remains.

use super::Model;
use headworks_policy::Nanos;
use headworks_policy::block::{REQUESTS, Request};

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

impl Model for Raw {
    fn depth(&self) -> u32 {
        // 1024 fits.
        REQUESTS as u32
    }

    fn start(&mut self, now: Nanos, _command: &Request) -> Nanos {
        now
    }
}
