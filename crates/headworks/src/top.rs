//! A live view of an instance in the terminal.
//!
//! `state` holds the view's data and the effect of each key; `draw` puts it on the screen. Neither
//! needs a terminal, so tests can press keys and read the picture.

mod draw;
mod state;
#[cfg(test)]
mod tests;
mod users;

pub use state::Fetched;

use anyhow::Context;
use crossterm::event::{self, Event, KeyEventKind};
use state::{Step, View};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shows what `fetch` returns, and fetches again in each interval, until the user quits. An error
/// is shown, and the next interval tries again.
pub fn run(
    fetch: impl FnMut() -> anyhow::Result<Fetched>,
    interval: Duration,
) -> anyhow::Result<()> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        anyhow::bail!(
            "`headworks top` needs a terminal\n  for a file or a pipe: headworks status, or headworks status --json"
        );
    }
    // Puts the terminal back on a panic, too.
    let mut terminal = ratatui::try_init()
        .context("cannot draw on this terminal\n  try: TERM=xterm-256color headworks top")?;
    let result = watch(&mut terminal, fetch, interval);
    let restored =
        ratatui::try_restore().context("cannot put the terminal back in order\n  type: reset");
    result.and(restored)
}

fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    mut fetch: impl FnMut() -> anyhow::Result<Fetched>,
    interval: Duration,
) -> anyhow::Result<()> {
    let mut view = View::new(interval);
    loop {
        let started = Instant::now();
        if !view.is_paused() {
            view.update(fetch());
        }
        loop {
            terminal
                .draw(|frame| draw::draw(frame, &mut view))
                .context("cannot draw on this terminal")?;
            let left = interval.saturating_sub(started.elapsed());
            if left.is_zero() || !event::poll(left).context("cannot read the keyboard")? {
                break;
            }
            // In raw mode Ctrl-C comes as a key, so that the terminal is put back first.
            let step = match event::read().context("cannot read the keyboard")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => view.press(key),
                _ => Step::Stay,
            };
            match step {
                Step::Quit => return Ok(()),
                Step::Refresh => break,
                Step::Stay => {}
            }
        }
    }
}
