//! Small C programs under the preloaded library: what it must not disturb, whatever they do.

mod ahead;
mod asks;
mod children;
mod compile;
mod exports;
mod faults;
mod files;
mod fortify;
mod levels;
mod lifecycle;
mod locks;
mod miniserver;
mod noop;
mod places;
mod signals;
mod stack;
#[path = "../failopen/support.rs"]
#[allow(dead_code)] // each test program uses a part of it
mod support;
mod torture;
mod transparent;
