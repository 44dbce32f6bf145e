//! Kinds of calls, and which of them each scheduler wants to hear of.

use super::SplitKind;

/// What a call does. The values are those of a task's kind in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CallKind {
    /// Writes to the page cache.
    Write = 0,
    /// Makes a file durable.
    Fsync = 1,
    /// Makes, renames, truncates or removes a file.
    Create = 2,
    /// Makes a directory.
    MakeDirectory = 3,
    /// A read that is not in the page cache: a request of the block level.
    Read = 4,
    /// A read, cached or not, for schedulers of system calls.
    ReadCall = 5,
    /// Begins the writeback of a range in the background. It makes nothing durable.
    WriteRange = 6,
    /// A read of a stream: the kernel has read ahead, or does so because of it.
    ReadStream = 7,
    /// Writes to the device itself (`O_DIRECT`).
    WriteDirect = 8,
    /// A small write that is durable when it returns (`O_DSYNC`, `O_SYNC`).
    Commit = 9,
}

impl CallKind {
    /// From the word in memory.
    pub fn from_word(word: u32) -> CallKind {
        match word {
            0 => CallKind::Write,
            1 => CallKind::Fsync,
            2 => CallKind::Create,
            3 => CallKind::MakeDirectory,
            4 => CallKind::Read,
            5 => CallKind::ReadCall,
            6 => CallKind::WriteRange,
            7 => CallKind::ReadStream,
            8 => CallKind::WriteDirect,
            _ => CallKind::Commit,
        }
    }

    /// Whether it writes to the device itself.
    pub fn is_direct(self) -> bool {
        matches!(self, CallKind::WriteDirect | CallKind::Commit)
    }
}

impl SplitKind {
    /// Whether the scheduler wants to hear of such calls before they run.
    pub fn hears(self, kind: CallKind) -> bool {
        match kind {
            CallKind::Fsync | CallKind::Write | CallKind::WriteDirect | CallKind::Commit => true,
            CallKind::WriteRange => matches!(self, SplitKind::Rcp | SplitKind::Deadline),
            CallKind::ReadStream | CallKind::Read => {
                matches!(self, SplitKind::Afq | SplitKind::Token | SplitKind::Rcp)
            }
            CallKind::ReadCall => self == SplitKind::ScsToken,
            CallKind::Create | CallKind::MakeDirectory => {
                !matches!(self, SplitKind::Deadline | SplitKind::Rcp)
            }
        }
    }

    /// Whether it asks which calls clients wait for.
    #[inline]
    pub fn puts_clients_first(self) -> bool {
        self == SplitKind::Rcp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_heard_of_at_the_call_or_at_the_device_and_never_at_both() {
        for kind in SplitKind::ALL {
            assert!(!(kind.hears(CallKind::ReadCall) && kind.hears(CallKind::Read)), "{kind}");
        }
        assert!(SplitKind::ScsToken.hears(CallKind::ReadCall));
        assert!(SplitKind::Rcp.hears(CallKind::Read) && !SplitKind::Rcp.hears(CallKind::Create));
    }

    #[test]
    fn a_kind_is_the_same_after_memory() {
        for word in 0..10 {
            assert_eq!(CallKind::from_word(word) as u32, word);
        }
    }
}
