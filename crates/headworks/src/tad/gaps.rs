//! `headworks tad search-gaps`

use crate::cli::Gaps;
use anyhow::Result;
use std::process::ExitCode;

/// `headworks tad search-gaps`
pub fn search(_args: &Gaps) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
