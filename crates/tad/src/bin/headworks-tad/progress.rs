//! Progress on standard error: a bar on a terminal, else a line now and then.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Thousandths of a whole.
const WHOLE: u64 = 1_000;

/// Time before the first line, and between two lines. Shorter work prints no lines.
const QUIET: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_secs(10);

/// See the module.
pub struct Progress {
    bar: Option<ProgressBar>,
    lines: Mutex<Lines>,
}

struct Lines {
    /// Start time of the lines.
    from: Instant,
    /// When the next line of progress is due, if there is no bar.
    due: Instant,
    /// Lines to print then.
    waiting: Vec<String>,
}

impl Progress {
    /// For work with a known end.
    pub fn new() -> Progress {
        Progress::with("{bar:30.blue} {percent:>3} % {msg}")
    }

    /// For work that may end at any time.
    pub fn without_end() -> Progress {
        Progress::with("{spinner:.blue} {elapsed} {msg}")
    }

    fn with(template: &str) -> Progress {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(WHOLE);
            let style = ProgressStyle::with_template(template)
                .map(|style| style.progress_chars("━╸─"))
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(style);
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        let from = Instant::now() + QUIET;
        Progress { bar, lines: Mutex::new(Lines { from, due: from, waiting: Vec::new() }) }
    }

    /// Shows that this fraction is done.
    pub fn set(&self, fraction: f64, message: &str) {
        let fraction = fraction.clamp(0.0, 1.0);
        match &self.bar {
            Some(bar) => {
                bar.set_message(message.to_owned());
                bar.set_position((fraction * WHOLE as f64) as u64);
            }
            None => self.line(&format!("{:.0} % {message}", fraction * 100.0)),
        }
    }

    /// Something goes on.
    pub fn goes_on(&self, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(message.to_owned());
        }
        self.line(message);
    }

    /// Prints a permanent line.
    pub fn say(&self, line: String) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).waiting.push(line);
    }

    /// Writes what is due.
    fn line(&self, message: &str) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now < lines.from {
            return;
        }
        for said in std::mem::take(&mut lines.waiting) {
            self.write(&said);
        }
        if self.bar.is_none() && now >= lines.due {
            lines.due = now + PAUSE;
            self.write(message);
        }
    }

    fn write(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(format!("headworks: {line}")),
            None => eprintln!("headworks: {line}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
