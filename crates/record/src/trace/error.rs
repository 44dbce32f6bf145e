//! Why a file is not a recording.

use super::SCHEMA;

/// Why a file is not a recording.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A line is wrong.
    #[error("line {line}: {why}")]
    Line {
        /// From one.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// It was made by another version.
    #[error("its first line says `{found}`, and this version reads `{SCHEMA}`")]
    Schema {
        /// What it says.
        found: String,
    },
    /// Two recordings have the same process.
    #[error("process {pid} of {host} is in both: give one of the two")]
    Twice {
        /// Machine.
        host: String,
        /// Process.
        pid: u32,
    },
    /// It would be larger than allowed.
    #[error("it would take more than {limit} bytes: record for a shorter time, or raise --limit")]
    Large {
        /// Bytes.
        limit: u64,
    },
}
