//! `volume powercut`.

use super::control::{self, Request, Response};
use super::state::Named;
use super::waiting::Waiting;
use crate::cli;
use anyhow::{Result, bail};
use headworks_policy::random::Random;
use std::time::Duration;

/// Longest wait before a cut, in seconds.
const WAIT_S_MAX: f64 = 86_400.0;

/// Cuts the power of a running volume, or gives it back.
pub fn powercut(args: &cli::Powercut) -> Result<()> {
    let (volume, _) = Named::existing(&args.name)?;
    if !volume.is_running() {
        bail!("volume `{}` does not run", volume.name);
    }
    if args.restore {
        if let Response::Done(done) = control::ask(&volume, Request::Restore)? {
            println!("volume `{}`: {done}", volume.name);
        }
        return Ok(());
    }
    let wait_s = match (args.after, args.within) {
        (Some(after), _) => after,
        (None, Some(within)) => within * Random::new(args.seed).unit(),
        (None, None) => 0.0,
    };
    if !(0.0..=WAIT_S_MAX).contains(&wait_s) {
        bail!("the wait must be from 0 to {WAIT_S_MAX} seconds");
    }
    {
        let _waiting =
            Waiting::new(format!("the power of `{}` goes in {wait_s:.2} s", volume.name));
        std::thread::sleep(Duration::from_secs_f64(wait_s));
    }
    match control::ask(&volume, Request::Cut)? {
        Response::Cut(report) => {
            println!(
                "the power of volume `{}` is off; of the sectors that were not flushed {} are lost, {} kept, {} torn (seed {})",
                volume.name, report.dropped, report.kept, report.torn, report.seed
            );
            let end = match volume.note().and_then(|note| note.nbd) {
                Some(_) => "the end of its server (Ctrl-C)".to_owned(),
                None => format!("headworks volume umount {}", volume.name),
            };
            println!(
                "  everything fails until: {end}, or: headworks volume powercut --restore {}",
                volume.name
            );
            Ok(())
        }
        other => bail!(
            "unexpected reply from volume `{0}`: {other:?}\n  is it of another version? mount it again: headworks volume umount {0}; headworks volume mount {0}",
            volume.name
        ),
    }
}
