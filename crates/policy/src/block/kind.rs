//! Schedulers by name.

use super::{Afq, BlockScheduler, Cfq, Deadline, Noop, Quanta, Rcp, Sfq, afq, cfq, sfq};

/// A scheduler that configuration can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SchedulerKind {
    /// [`Noop`]; also `none`.
    Noop,
    /// [`Deadline`]; also `mq-deadline`.
    Deadline,
    /// [`Cfq`].
    Cfq,
    /// [`Afq`], standing alone.
    Afq,
    /// [`Rcp`].
    Rcp,
    /// [`Sfq`].
    Sfq,
    /// [`Quanta`].
    Quanta,
}

impl SchedulerKind {
    /// All of them.
    pub const ALL: [SchedulerKind; 7] = [
        SchedulerKind::Noop,
        SchedulerKind::Deadline,
        SchedulerKind::Cfq,
        SchedulerKind::Afq,
        SchedulerKind::Rcp,
        SchedulerKind::Sfq,
        SchedulerKind::Quanta,
    ];

    /// Name, as configuration has it.
    pub const fn name(self) -> &'static str {
        match self {
            SchedulerKind::Noop => "noop",
            SchedulerKind::Deadline => "deadline",
            SchedulerKind::Cfq => "cfq",
            SchedulerKind::Afq => "afq",
            SchedulerKind::Rcp => "rcp",
            SchedulerKind::Sfq => "sfq",
            SchedulerKind::Quanta => "quanta",
        }
    }

    /// One with the usual settings for a disk, empty.
    pub fn build(self) -> Box<dyn BlockScheduler> {
        self.build_for(true)
    }

    /// One with the usual settings for a disk (`rotational`) or for flash, empty.
    pub fn build_for(self, rotational: bool) -> Box<dyn BlockScheduler> {
        match self {
            SchedulerKind::Noop => Box::new(Noop::default()),
            SchedulerKind::Deadline => Box::new(Deadline::default()),
            SchedulerKind::Cfq if rotational => Box::new(Cfq::default()),
            SchedulerKind::Cfq => Box::new(Cfq::new(cfq::Settings::flash())),
            SchedulerKind::Afq if rotational => Box::new(Afq::default()),
            SchedulerKind::Afq => Box::new(Afq::new(afq::Settings::flash())),
            SchedulerKind::Rcp => Box::new(Rcp::default()),
            SchedulerKind::Sfq if rotational => Box::new(Sfq::default()),
            SchedulerKind::Sfq => Box::new(Sfq::new(sfq::Settings::flash())),
            SchedulerKind::Quanta => Box::new(Quanta::default()),
        }
    }

    /// The same where writes were scheduled at their calls.
    pub fn build_beneath_calls(self, rotational: bool) -> Box<dyn BlockScheduler> {
        let settings = if rotational { afq::Settings::default() } else { afq::Settings::flash() };
        match self {
            SchedulerKind::Afq => Box::new(Afq::new(settings.beneath_calls())),
            other => other.build_for(rotational),
        }
    }
}

crate::named::named!(
    SchedulerKind,
    UnknownScheduler,
    "block scheduler",
    "none" => "noop",
    "mq-deadline" => "deadline",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheduler_is_found_by_its_name() {
        for kind in SchedulerKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert_eq!(kind.build().name(), kind.name());
        }
        let error = "elevator".parse::<SchedulerKind>().unwrap_err().to_string();
        assert!(error.contains("elevator") && error.contains("deadline"), "{error}");
    }
}
