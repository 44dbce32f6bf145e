//! Batches of blocking requests, on extra threads.

use crate::error::StorageError;
use parking_lot::Mutex;
use std::sync::mpsc;
use std::thread::Builder;

/// Processes `items` on at most `threads` threads. `done` is called on the calling thread, with an
/// item's index and result; all have ended on return.
pub(super) fn work_through<T: Send>(
    threads: usize,
    items: impl ExactSizeIterator<Item = T> + Send,
    work: &(dyn Fn(T) -> Result<(), StorageError> + Sync),
    done: &mut dyn FnMut(usize, Result<(), StorageError>),
) {
    let threads = threads.min(items.len());
    let items = Mutex::new(items.enumerate());
    let next = || items.lock().next();
    let (sender, ended) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            let worker = move || {
                while let Some((at, item)) = next() {
                    if sender.send((at, work(item))).is_err() {
                        return;
                    }
                }
            };
            // If no more threads can be started, the existing ones do the work.
            if Builder::new().spawn_scoped(scope, worker).is_err() {
                break;
            }
        }
        drop(sender);
        for (at, result) in ended {
            done(at, result);
        }
        // All is done, unless no thread could be started.
        while let Some((at, item)) = next() {
            done(at, work(item));
        }
    });
}
