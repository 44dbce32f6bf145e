//! A real MariaDB behind a gate whose daemon, region or server fails: all requests pass, none is
//! lost, and nothing is left behind.

mod container;
mod crowd;
mod daemon;
mod limits;
mod restart;
mod scribble;
mod several;
mod shutdown;
#[allow(dead_code)] // each test program uses a part of it
mod support;
