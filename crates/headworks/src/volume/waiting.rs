//! A progress line for operations of more than two seconds; elsewhere than on a terminal it is
//! written once.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Nothing is shown before this time.
const QUIET: Duration = Duration::from_secs(2);

/// How often the picture changes.
const STEP: Duration = Duration::from_millis(120);

/// Shows a progress line while it exists.
pub struct Waiting(Option<(Sender<()>, JoinHandle<()>)>);

impl Waiting {
    /// `what` is shown after two seconds, with the time since.
    pub fn new(what: String) -> Waiting {
        let (sender, receiver) = channel::<()>();
        let thread = std::thread::spawn(move || {
            if receiver.recv_timeout(QUIET) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            if !stderr().is_terminal() {
                eprintln!("{what} …");
                let _ = receiver.recv();
                return;
            }
            let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            let bar = ProgressBar::new_spinner().with_style(style).with_elapsed(QUIET);
            bar.set_message(what);
            while receiver.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                bar.tick();
            }
            bar.finish_and_clear();
        });
        Waiting(Some((sender, thread)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            // It only draws.
            let _ = thread.join();
        }
    }
}
