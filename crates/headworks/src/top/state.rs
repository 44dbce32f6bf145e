//! The state of the view, and the effect of each key.

use crate::status::{Status, UserStatus};
use crate::{io, volume};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use headworks_console::Sheet;
use std::collections::VecDeque;
use std::time::Duration;

/// Points of throughput that are kept; wider than any terminal.
const HISTORY: usize = 512;

/// What the sessions are sorted by; always the largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Time queued or admitted, the queued ones before all others.
    Since,
    /// Mean wait.
    Wait,
    /// Requests per second.
    Requests,
    /// Mean latency.
    Latency,
}

impl Sort {
    pub(super) const ALL: [Sort; 4] = [Sort::Since, Sort::Wait, Sort::Requests, Sort::Latency];

    /// Its key, and its name in the footer.
    pub(super) fn key(self) -> (char, &'static str) {
        match self {
            Sort::Since => ('s', "since"),
            Sort::Wait => ('w', "wait"),
            Sort::Requests => ('r', "requests"),
            Sort::Latency => ('l', "latency"),
        }
    }

    /// Larger comes first.
    fn weigh(self, user: &UserStatus) -> (u8, f64) {
        match self {
            Sort::Since if user.state == "waiting" => (2, user.since_ms.unwrap_or(0.0)),
            Sort::Since => (u8::from(user.since_ms.is_some()), user.since_ms.unwrap_or(0.0)),
            Sort::Wait => (0, user.wait_ms_mean),
            Sort::Requests => (0, user.requests_per_s),
            Sort::Latency => (0, user.latency_ms_mean),
        }
    }
}

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// The gate, and who waits.
    Sessions,
    /// Threads, and what they do with files.
    Files,
    /// What passes through volumes.
    Volumes,
}

impl Page {
    pub(super) const ALL: [Page; 3] = [Page::Sessions, Page::Files, Page::Volumes];

    pub(super) fn name(self) -> &'static str {
        ["sessions", "files", "volumes"][self as usize]
    }
}

/// What is shown.
#[derive(Debug)]
pub struct Fetched {
    /// Of the instance.
    pub status: Status,
    /// Volumes that run on this machine.
    pub volumes: Vec<volume::Shown>,
}

/// What to do after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Draw.
    Stay,
    /// Fetch, then draw.
    Refresh,
    /// End.
    Quit,
}

/// The view.
#[derive(Debug)]
pub(super) struct View {
    pub status: Option<Status>,
    pub page: Page,
    /// What the last interval was for files and volumes.
    pub files: Option<Sheet>,
    pub volumes: Sheet,
    volumes_before: Vec<volume::Shown>,
    /// Why the last fetch failed.
    pub error: Option<String>,
    /// Requests per second, the latest first.
    pub history: VecDeque<u64>,
    pub interval: Duration,
    pub sort: Sort,
    pub filter: String,
    /// Keys go into the filter.
    pub typing: bool,
    pub help: bool,
    paused: bool,
    /// First user that is shown.
    scroll: usize,
    /// Users that the last picture had room for.
    room: usize,
}

impl View {
    pub(super) fn new(interval: Duration) -> Self {
        View {
            status: None,
            page: Page::Sessions,
            files: None,
            volumes: Sheet::default(),
            volumes_before: Vec::new(),
            error: None,
            history: VecDeque::with_capacity(HISTORY),
            interval,
            sort: Sort::Since,
            filter: String::new(),
            typing: false,
            help: false,
            paused: false,
            scroll: 0,
            room: 1,
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Takes the result of a fetch. After an error the last figures stay, marked as old.
    pub(super) fn update(&mut self, fetched: anyhow::Result<Fetched>) {
        match fetched {
            Ok(Fetched { status, volumes }) => {
                let before = self.status.as_ref().and_then(|status| status.files.as_ref());
                let now = status.files.as_ref();
                self.files = now.map(|now| io::sheet(before.unwrap_or(now), now));
                self.volumes = volume::sheet(&self.volumes_before, &volumes);
                self.volumes_before = volumes;
                self.history.truncate(HISTORY - 1);
                self.history.push_front(status.requests_per_s.max(0.0).round() as u64);
                self.status = Some(status);
                self.error = None;
            }
            Err(error) => self.error = Some(format!("{error:#}")),
        }
    }

    /// Users that fit the filter, in order.
    pub(super) fn users(&self) -> Vec<&UserStatus> {
        let wanted = self.filter.to_lowercase();
        let fits = |text: &str| text.to_lowercase().contains(&wanted);
        let all = self.status.iter().flat_map(|status| &status.connections);
        let mut users: Vec<&UserStatus> = all
            .filter(|user| wanted.is_empty() || fits(&user.account) || fits(&user.class))
            .collect();
        users.sort_by(|a, b| {
            let (a_kind, a_value) = self.sort.weigh(a);
            let (b_kind, b_value) = self.sort.weigh(b);
            b_kind.cmp(&a_kind).then(b_value.total_cmp(&a_value)).then(a.user.cmp(&b.user))
        });
        users
    }

    /// Tells how many sessions the picture has room for. Returns the first to show.
    pub(super) fn scroll_for(&mut self, users: usize, page: usize) -> usize {
        self.room = page.max(1);
        self.scroll = self.scroll.min(users.saturating_sub(self.room));
        self.scroll
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Step {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if matches!(key.code, KeyCode::Char('c' | 'd')) {
                Step::Quit
            } else {
                Step::Stay
            };
        }
        if self.typing {
            self.type_filter(key.code);
            return Step::Stay;
        }
        if self.help {
            self.help = false;
            return if key.code == KeyCode::Char('q') { Step::Quit } else { Step::Stay };
        }
        match key.code {
            KeyCode::Char('q') => return Step::Quit,
            KeyCode::Char(' ') => {
                self.paused = !self.paused;
                return if self.paused { Step::Stay } else { Step::Refresh };
            }
            KeyCode::Tab => {
                self.page = Page::ALL[(self.page as usize + 1) % Page::ALL.len()];
            }
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            // If that is too far, the next picture corrects it, as it knows how many there are.
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(self.room),
            KeyCode::PageDown => self.scroll += self.room,
            KeyCode::Home | KeyCode::Char('g') => self.scroll = 0,
            KeyCode::End | KeyCode::Char('G') => self.scroll = usize::MAX / 2,
            KeyCode::Char(letter) => {
                if let Some(sort) = Sort::ALL.into_iter().find(|sort| sort.key().0 == letter) {
                    (self.sort, self.scroll) = (sort, 0);
                }
            }
            _ => {}
        }
        Step::Stay
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            // No account or class is longer.
            KeyCode::Char(letter) if self.filter.chars().count() < 64 => self.filter.push(letter),
            _ => {}
        }
        self.scroll = 0;
    }
}
