//! A random server for tests.

use headworks_record::truth::Server;
use std::path::Path;
use std::process::Command;

pub use headworks_record::truth::Clients;

pub fn start(seed: u64, words: &[&str]) -> Server {
    start_program(&crate::conserve::example("random_server"), seed, words)
}

pub fn start_program(program: &Path, seed: u64, words: &[&str]) -> Server {
    Server::start(command(program, seed, words)).expect("a server")
}

pub fn command(program: &Path, seed: u64, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.arg(seed.to_string()).args(words);
    command
}
