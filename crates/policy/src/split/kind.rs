//! Split schedulers by name, and the state of all of them as shared memory has it.

use super::{Afq, Deadline, DeviceCost, Noop, Rcp, Scheduler, ScsToken, Token, afq, pacer, rcp};
/// A scheduler that configuration can name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SplitKind {
    /// [`Noop`]: everything goes at once.
    #[default]
    Noop = 0,
    /// [`Afq`].
    Afq = 1,
    /// [`Deadline`].
    Deadline = 2,
    /// [`Token`].
    Token = 3,
    /// [`ScsToken`], the system-call rival.
    ScsToken = 4,
    /// [`Rcp`].
    Rcp = 5,
}

impl SplitKind {
    /// All of them.
    pub const ALL: [SplitKind; 6] = [
        SplitKind::Noop,
        SplitKind::Afq,
        SplitKind::Deadline,
        SplitKind::Token,
        SplitKind::ScsToken,
        SplitKind::Rcp,
    ];

    /// Name, as configuration and command line have it.
    pub const fn name(self) -> &'static str {
        match self {
            SplitKind::Noop => "noop",
            SplitKind::Afq => "afq",
            SplitKind::Deadline => "split-deadline",
            SplitKind::Token => "split-token",
            SplitKind::ScsToken => "scs-token",
            SplitKind::Rcp => "rcp",
        }
    }

    /// From the word in memory; an unknown one holds no call.
    pub fn from_word(word: u32) -> SplitKind {
        // In the order of their words: this is asked at each call.
        SplitKind::ALL.get(word as usize).copied().unwrap_or_default()
    }
}

crate::named::named!(SplitKind, UnknownSplit, "I/O scheduler");

/// The state of the scheduler that is in force, and room for the others. All zero bytes are
/// [`Noop`].
#[derive(Debug)]
#[repr(C)]
pub struct SplitState {
    kind: u32,
    noop: Noop,
    afq: Afq,
    deadline: Deadline,
    token: Token,
    scs: ScsToken,
    rcp: Rcp,
}

crate::layout!(SplitState { kind, noop, afq, deadline, token, scs, rcp });

impl SplitState {
    /// Another scheduler for this kind of device, in a state of all zero bytes. The state is too
    /// large for a new one on a thread's stack.
    pub fn start(&mut self, kind: SplitKind, rotational: bool) {
        self.kind = kind as u32;
        let device = DeviceCost::for_device(rotational);
        match kind {
            SplitKind::Noop => {}
            SplitKind::Afq => self.afq.begin(afq::Settings::for_device(rotational)),
            SplitKind::Deadline => {
                self.deadline.begin(pacer::Settings::for_device(rotational));
            }
            SplitKind::Token => self.token.begin(device),
            SplitKind::ScsToken => {}
            SplitKind::Rcp => self.rcp.begin(rcp::Settings::for_device(rotational)),
        }
    }

    /// How much background tasks may dirty before their writes are held, for [`Rcp`].
    pub fn set_dirty_max(&mut self, bytes: u64) {
        self.rcp.set_dirty_max(bytes);
    }

    /// How many reads of the background run while critical I/O is active, for [`Rcp`].
    pub fn set_reads(&mut self, count: u32) {
        self.rcp.set_reads(count);
    }

    /// Which one is in force.
    pub fn kind(&self) -> SplitKind {
        SplitKind::from_word(self.kind)
    }

    /// The one in force.
    pub fn scheduler(&mut self) -> &mut dyn Scheduler {
        match self.kind() {
            SplitKind::Noop => &mut self.noop,
            SplitKind::Afq => &mut self.afq,
            SplitKind::Deadline => &mut self.deadline,
            SplitKind::Token => &mut self.token,
            SplitKind::ScsToken => &mut self.scs,
            SplitKind::Rcp => &mut self.rcp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheduler_is_found_by_its_name_and_starts() {
        let mut state = Box::new(SplitState {
            kind: 99,
            noop: Noop::default(),
            afq: Afq::default(),
            deadline: Deadline::default(),
            token: Token::default(),
            scs: ScsToken::default(),
            rcp: Rcp::default(),
        });
        assert_eq!(state.kind(), SplitKind::Noop, "an unknown one holds no call");
        for kind in SplitKind::ALL {
            assert_eq!(SplitKind::from_word(kind as u32), kind);
            assert_eq!(kind.name().parse(), Ok(kind));
            state.start(kind, true);
            assert_eq!(state.scheduler().name(), kind.name());
        }
        let error = "elevator".parse::<SplitKind>().unwrap_err().to_string();
        assert!(error.contains("elevator") && error.contains("split-token"), "{error}");
    }
}
