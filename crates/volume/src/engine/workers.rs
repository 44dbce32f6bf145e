//! Threads that wait for slow stores.

use super::queue::Command;
use super::shared::{AbortOnPanic, Shared};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Threads of one engine: a slow store gets as many commands at a time.
pub(super) const WORKERS: usize = 32;

#[derive(Default)]
struct State {
    commands: VecDeque<Box<Command>>,
    stopped: bool,
}

/// Commands that wait for a thread.
#[derive(Default)]
pub(super) struct Workers {
    state: Mutex<State>,
    more: Condvar,
}

impl Workers {
    /// Hands a command to a thread.
    pub(super) fn push(&self, command: Box<Command>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).commands.push_back(command);
        self.more.notify_one();
    }

    /// Ends the threads once all commands are done.
    pub(super) fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.more.notify_all();
    }

    fn pop(&self) -> Option<Box<Command>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(command) = state.commands.pop_front() {
                return Some(command);
            }
            if state.stopped {
                return None;
            }
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Starts the threads.
pub(super) fn spawn(shared: &Arc<Shared>) -> io::Result<Vec<JoinHandle<()>>> {
    (0..WORKERS)
        .map(|_| {
            let shared = Arc::clone(shared);
            std::thread::Builder::new().name("volume-store".to_owned()).spawn(move || {
                let _abort = AbortOnPanic;
                while let Some(command) = shared.workers.pop() {
                    Shared::work(&shared, command);
                }
            })
        })
        .collect()
}
