//! A server in Java, whose limit is its heap.

use crate::compiled::Classes;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = include_str!("Small.java");
/// Of these, 34 MB are in use all the time, and 4 MB are for what is young. The larger one has
/// room for twice as much garbage.
const HEAP: &str = "-Xmx48m";
const LARGER_HEAP: &str = "-Xmx58m";

pub(super) fn compile() -> Result<Classes> {
    Classes::compile("Small", PROGRAM)
}

pub(super) fn command(classes: &Classes, mended: bool) -> Command {
    let heap = if mended { LARGER_HEAP } else { HEAP };
    classes.command(Path::new("java"), &["-XX:+UseSerialGC", "-Xmn4m", heap])
}
