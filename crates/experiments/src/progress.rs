//! One bar for a whole experiment, or plain lines where there is no terminal.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Shows which step runs and how long the rest is expected to take.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    expected: Duration,
    begun: Instant,
    /// Expected time of the steps that are over.
    done: Duration,
    step: Duration,
    step_begun: Instant,
    step_name: String,
}

impl Progress {
    pub(crate) fn new(title: &str, expected: Duration) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(expected.as_millis() as u64);
            let style = ProgressStyle::with_template("{wide_bar:.blue} {percent:>3} % {msg}")
                .map(|style| style.progress_chars("━╸─"))
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(style);
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        if bar.is_none() {
            line(&format!("{title}: about {}", human(expected)));
        }
        Self {
            bar,
            expected,
            begun: Instant::now(),
            done: Duration::ZERO,
            step: Duration::ZERO,
            step_begun: Instant::now(),
            step_name: String::new(),
        }
    }

    /// Begins a step that is expected to take this long; ends the one before.
    pub(crate) fn step(&mut self, name: &str, expected: Duration) {
        self.done += self.step;
        self.step = expected;
        self.step_begun = Instant::now();
        self.step_name = name.to_owned();
        if self.bar.is_none() {
            let left = self.expected.saturating_sub(self.done);
            line(&format!("  {name} ({} left)", human(left)));
        }
        self.tick();
    }

    /// Expected time of all steps so far.
    pub(crate) fn expected_so_far(&self) -> Duration {
        self.done + self.step
    }

    /// All steps since then come once more.
    pub(crate) fn repeat_since(&mut self, then: Duration) {
        self.expected += self.expected_so_far() - then;
        if let Some(bar) = &self.bar {
            bar.set_length(self.expected.as_millis() as u64);
        }
    }

    /// Says something that is to stay.
    pub(crate) fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => line(&format!("  {text}")),
        }
    }

    /// Moves the bar inside the current step, never beyond what the step was expected to take.
    pub(crate) fn tick(&self) {
        let Some(bar) = &self.bar else { return };
        let position = self.done + self.step_begun.elapsed().min(self.step);
        bar.set_position(position.as_millis() as u64);
        bar.set_message(format!(
            "{} · {} left",
            self.step_name,
            human(self.expected.saturating_sub(position))
        ));
    }
}

impl Progress {
    /// For work whose parts are counted: this fraction of it is over. The time that is left follows
    /// from how fast it went, not from what was expected.
    pub(crate) fn reach(&mut self, fraction: f64, name: &str) {
        let elapsed = self.begun.elapsed();
        let left = elapsed.mul_f64((1.0 - fraction).max(0.0) / fraction.max(1e-3));
        match &self.bar {
            Some(bar) => {
                bar.set_length(1000);
                bar.set_position((fraction * 1000.0) as u64);
                bar.set_message(format!("{name} · {} left", human(left)));
            }
            None if self.step_name != name => line(&format!("  {name} ({} left)", human(left))),
            None => {}
        }
        if self.step_name != name {
            name.clone_into(&mut self.step_name);
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

/// A reader who has gone away is no reason to stop measuring.
fn line(text: &str) {
    let _ = writeln!(stderr(), "{text}");
}

/// `9 min 05 s`, or `42 s`.
pub(crate) fn human(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds / 60 {
        0 => format!("{seconds} s"),
        minutes => format!("{minutes} min {:02} s", seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_steps_are_expected_again() {
        let mut progress = Progress::new("test", Duration::from_secs(10));
        progress.step("start", Duration::from_secs(2));
        let begun = progress.expected_so_far();
        progress.step("slice", Duration::from_secs(8));
        progress.repeat_since(begun);
        assert_eq!(progress.expected - progress.expected_so_far(), Duration::from_secs(8));
    }

    #[test]
    fn times_read_well() {
        assert_eq!(human(Duration::from_millis(41_600)), "42 s");
        assert_eq!(human(Duration::from_secs(545)), "9 min 05 s");
    }
}
