//! `delay`: every request of a kind waits for a time before it goes on.

use super::settings::{LayerError, Settings};
use super::{Layer, Verdict};
use headworks_policy::Nanos;
use headworks_policy::block::{Operation, Request};

/// How long each kind of request waits. Any number of requests wait at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    of: [Nanos; 5],
}

impl Delay {
    /// An example of valid settings.
    pub(super) const EXAMPLE: &'static str = "delay:read=2ms,write=500us,flush=10ms";

    /// From text: `all=`, `read=`, `write=`, `flush=`, `discard=`, `zero=`, each a time.
    pub(super) fn parse(text: &str) -> Result<Delay, LayerError> {
        let mut settings = Settings::new(text, Self::EXAMPLE)?;
        let mut delay = Delay::default();
        let all = settings.take_time("all")?;
        for (key, operation) in [
            ("read", Operation::Read),
            ("write", Operation::Write),
            ("flush", Operation::Flush),
            ("discard", Operation::Discard),
            ("zero", Operation::WriteZeroes),
        ] {
            let own = settings.take_time(key)?;
            delay.of[operation as usize] = own.or(all).unwrap_or_default();
        }
        if delay == Delay::default() {
            return Err(settings.error("it delays nothing"));
        }
        settings.finish()?;
        Ok(delay)
    }
}

impl Layer for Delay {
    fn name(&self) -> &'static str {
        "delay"
    }

    fn admit(&mut self, now: Nanos, request: &Request) -> Verdict {
        Verdict { hold_until: now + self.of[request.operation as usize], fault: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_waits_for_its_own_time() {
        let mut delay = Delay::parse("delay:all=1ms,read=250us,flush=0s").unwrap();
        let mut until =
            |operation| delay.admit(Nanos(1_000), &Request::new(operation, 0, 8)).hold_until;
        assert_eq!(until(Operation::Read), Nanos(251_000));
        assert_eq!(until(Operation::Write), Nanos(1_001_000));
        assert_eq!(until(Operation::Flush), Nanos(1_000));
    }

    #[test]
    fn a_delay_of_nothing_is_refused() {
        assert!(Delay::parse("delay").is_err());
        assert!(Delay::parse("delay:read=2").is_err());
    }
}
