//! `headworks tad analyse`

use crate::cli::Analyse;
use crate::{compare, output};
use anyhow::Result;
use std::process::ExitCode;

/// See the module.
pub fn analyse(args: &Analyse) -> Result<ExitCode> {
    output::write(&compare::recording(&args.file)?, &args.results)
}
