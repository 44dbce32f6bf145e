//! `headworks tad analyse`

use crate::cli::Analyse;
use crate::{compare, output};
use anyhow::{Context, Result};
use std::process::ExitCode;

/// See the module.
pub fn analyse(args: &Analyse) -> Result<ExitCode> {
    let [first, others @ ..] = args.files.as_slice() else { return Ok(ExitCode::FAILURE) };
    let mut trace = compare::recording(first)?;
    for path in others {
        trace
            .join(compare::recording(path)?)
            .with_context(|| format!("{} does not belong to the others", path.display()))?;
    }
    output::write(&trace, &args.results)
}
