//! How far something is, on standard error; nothing where nobody looks.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};

/// Thousandths of a whole.
const WHOLE: u64 = 1_000;

/// See the module.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    pub fn new() -> Progress {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(WHOLE);
            let style = ProgressStyle::with_template("{bar:30.blue} {percent:>3} % {msg}")
                .map(|style| style.progress_chars("━╸─"))
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(style);
            bar
        });
        Progress(bar)
    }

    /// A fraction of all is done.
    pub fn set(&self, fraction: f64, message: &str) {
        let Some(bar) = &self.0 else { return };
        bar.set_message(message.to_owned());
        bar.set_position((fraction.clamp(0.0, 1.0) * WHOLE as f64) as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
