//! What the tuner decides, for logs and pictures.

use crate::matching::{Curve, Misfit, Sample};

/// Why a search begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There are sessions enough for the first time.
    Sessions,
    /// There are half as many sessions again as when the latest search began.
    Grown,
    /// The latest search is long ago.
    Time,
    /// The open gate was better than the P that was held.
    Probe,
    /// Throughput at the P that is held has shifted.
    Throughput,
    /// The time that a turn spends inside has shifted, at the P that is held.
    ServiceTime,
    /// Turns have become longer or shorter, in requests: another mix of transactions. P has hardly
    /// a part in that (what is tried again after a deadlock), so it is seen during a search, too.
    Mix,
}

/// Why a search came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsufficientData {
    /// Most sessions have left: P holds no request.
    Sessions,
    /// Too few turns end to tell one P from another.
    Requests,
    /// Long requests run. Any P that queues a short one would hand processors to them.
    Long,
}

/// Something that the tuner decided, and how well what it rests on is known. Intervals are half of
/// the 95 % confidence interval, relative to the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    /// A search began at this P.
    Began {
        /// P.
        parallelism: u32,
        /// Why.
        why: Why,
    },
    /// The samples and what the model made of them.
    Fitted {
        /// P₀, P₁, P₂ and their throughputs.
        samples: [Sample; 3],
        /// How well each is known.
        intervals: [f64; 3],
        /// The curve, or why there is none.
        fit: Result<Curve, Misfit>,
        /// The curve still rises at P₂: there is no matching point up to there.
        rising: bool,
        /// Where the climb begins.
        start: u32,
    },
    /// Too few turns end at this P to tell its throughput. The samples end above it.
    Unsampled {
        /// P of that sample.
        parallelism: u32,
        /// Turns that ended there.
        turns: u64,
        /// Time that they took, in seconds.
        seconds: f64,
    },
    /// The search was given up, and what was held before is in force again.
    Abandoned {
        /// P that is in force.
        parallelism: u32,
        /// Why.
        insufficient: InsufficientData,
    },
    /// A neighbour was better.
    Moved {
        /// P before.
        from: u32,
        /// P after.
        to: u32,
        /// Throughput after, relative to that before.
        gain: f64,
        /// How well the gain is known.
        interval: f64,
    },
    /// The gate stays open, or is opened: no P was surely better.
    Open {
        /// Throughput of the open gate.
        throughput_per_s: f64,
        /// How well that is known.
        interval: f64,
        /// The best other P with its throughput; `None` if each was clearly worse.
        best: Option<Sample>,
        /// How well that is known.
        best_interval: f64,
    },
    /// The search is over: this P is better than the open gate.
    Settled {
        /// P.
        parallelism: u32,
        /// Its throughput.
        throughput_per_s: f64,
        /// How well that is known.
        interval: f64,
        /// The same of the open gate, as far as it was measured.
        open_per_s: f64,
        /// How well that is known.
        open_interval: f64,
    },
}
