//! `headworks tad analyse`

use crate::cli::Analyse;
use crate::output;
use anyhow::{Context, Result};
use headworks_record::trace::Trace;
use std::io::BufReader;
use std::process::ExitCode;

/// See the module.
pub fn analyse(args: &Analyse) -> Result<ExitCode> {
    let shown = args.file.display();
    let file = std::fs::File::open(&args.file).with_context(|| {
        format!("cannot read {shown}; `headworks tad record --raw FILE` makes one")
    })?;
    let trace = Trace::read(BufReader::new(file))
        .with_context(|| format!("{shown} is no recording of this version"))?;
    output::write(&trace, &args.results)
}
