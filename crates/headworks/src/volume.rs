//! `headworks volume`: block devices whose device, queue and faults live in user space.

mod calibrate;
mod causes;
mod control;
mod create;
mod doctor;
mod front;
mod mount;
mod powercut;
mod replay;
mod serve;
mod show;
mod state;
mod system;
mod tunnel;
mod users;
mod waiting;

pub use doctor::left;
pub use show::{Shown, running, sheet};

use crate::cli::VolumeCommand;
use anyhow::Result;
use std::process::ExitCode;

/// Does what the command line says.
pub fn run(command: &VolumeCommand) -> Result<ExitCode> {
    match command {
        VolumeCommand::Create(args) => create::create(args)?,
        VolumeCommand::Mount(args) => mount::mount(args)?,
        VolumeCommand::Umount(args) => mount::umount(args)?,
        VolumeCommand::List(args) => show::list(args)?,
        VolumeCommand::Stat(args) => show::stat(args)?,
        VolumeCommand::Rm(args) => create::rm(args)?,
        VolumeCommand::Powercut(args) => powercut::powercut(args)?,
        VolumeCommand::Calibrate(args) => calibrate::calibrate(args)?,
        VolumeCommand::Replay(args) => replay::replay(args)?,
        VolumeCommand::Doctor(args) => return doctor::doctor(args),
        VolumeCommand::Serve(args) => serve::serve(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
