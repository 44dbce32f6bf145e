//! Policies of queues.

/// The order of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// As they came.
    Fifo,
    /// Client with the highest weight first.
    Priority,
    /// Weighted fair queueing for dominant resource fairness.
    Drf,
    /// Deficit round robin by dominant cost.
    Drr,
    /// Stride scheduling by number of requests.
    Stride,
}

impl Policy {
    /// Names in files and on the command line.
    pub const NAMES: [(Policy, &'static str); 5] = [
        (Policy::Fifo, "fifo"),
        (Policy::Priority, "priority"),
        (Policy::Drf, "drf"),
        (Policy::Drr, "drr"),
        (Policy::Stride, "stride"),
    ];

    /// Name in files.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(policy, _)| *policy == self).map_or("fifo", |(_, name)| name)
    }

    /// The policy of a name.
    pub fn from_name(name: &str) -> Option<Policy> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(policy, _)| *policy)
    }
}
