//! Queues of the random system: what passes requests to a stage.

use io_uring::{IoUring, opcode, types};
use std::cell::{RefCell, UnsafeCell};
use std::collections::VecDeque;

/// What passes requests to a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Condition,
    Semaphore,
    Pipe,
    Event,
    /// The consumer sleeps for a while, and looks.
    Poll,
    /// The consumer looks all the time.
    Spin,
    /// One wake-up for all that wait, which the consumer takes together.
    Batch,
    /// A pipe that is read by io_uring.
    Ring,
}

/// glibc's condition with its mutex: the futexes of C programs.
pub struct Condition {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    condition: UnsafeCell<libc::pthread_cond_t>,
}

// SAFETY: all of it is used through glibc's functions, which are made for several threads.
unsafe impl Send for Condition {}
// SAFETY: as above.
unsafe impl Sync for Condition {}

impl Condition {
    pub fn new() -> Condition {
        Condition {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            condition: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
        }
    }

    /// Runs `change` under the mutex, and wakes one.
    pub fn signal(&self, change: impl FnOnce()) {
        self.signal_if(|| {
            change();
            true
        });
    }

    /// Runs `change` under the mutex, and wakes one if it says so.
    fn signal_if(&self, change: impl FnOnce() -> bool) {
        // SAFETY: both live as long as `self`, and are initialised.
        unsafe {
            libc::pthread_mutex_lock(self.mutex.get());
            if change() {
                libc::pthread_cond_signal(self.condition.get());
            }
            libc::pthread_mutex_unlock(self.mutex.get());
        }
    }

    /// Waits until `ready` has something.
    pub fn wait<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        // SAFETY: as above.
        unsafe {
            libc::pthread_mutex_lock(self.mutex.get());
            loop {
                if let Some(found) = ready() {
                    libc::pthread_mutex_unlock(self.mutex.get());
                    return found;
                }
                libc::pthread_cond_wait(self.condition.get(), self.mutex.get());
            }
        }
    }
}

/// Items of one stage.
pub struct Queue<T> {
    /// What wakes its consumer.
    pub kind: Kind,
    items: UnsafeCell<VecDeque<T>>,
    queue: Condition,
    semaphore: UnsafeCell<libc::sem_t>,
    pipe: [i32; 2],
    event: i32,
    poll: i32,
}

// SAFETY: `items` is used under the queue's mutex alone, the rest is made for several threads.
unsafe impl<T: Send> Send for Queue<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Queue<T> {}

impl<T> Queue<T> {
    pub fn new(kind: Kind) -> Queue<T> {
        let mut pipe = [0; 2];
        // SAFETY: the calls get valid places, and their results are checked.
        unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            let event = libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_SEMAPHORE);
            let poll = libc::epoll_create1(0);
            let mut what = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            assert_eq!(libc::epoll_ctl(poll, libc::EPOLL_CTL_ADD, event, &raw mut what), 0);
            let queue = Queue {
                kind,
                items: UnsafeCell::new(VecDeque::new()),
                queue: Condition::new(),
                semaphore: UnsafeCell::new(std::mem::zeroed()),
                pipe,
                event,
                poll,
            };
            assert_eq!(libc::sem_init(queue.semaphore.get(), 0, 0), 0);
            queue
        }
    }

    pub fn push(&self, item: T) {
        // SAFETY: under the queue's mutex.
        let add = move || unsafe { (*self.items.get()).push_back(item) };
        let quietly = |add: &mut dyn FnMut()| {
            // SAFETY: the mutex is initialised.
            unsafe {
                libc::pthread_mutex_lock(self.queue.mutex.get());
                add();
                libc::pthread_mutex_unlock(self.queue.mutex.get());
            }
        };
        let mut add = Some(add);
        let mut add = || add.take().expect("once")();
        match self.kind {
            Kind::Condition => self.queue.signal(add),
            Kind::Semaphore => {
                quietly(&mut add);
                // SAFETY: initialised.
                unsafe { libc::sem_post(self.semaphore.get()) };
            }
            Kind::Pipe | Kind::Ring => {
                quietly(&mut add);
                // SAFETY: one byte from a valid place.
                unsafe { libc::write(self.pipe[1], b"x".as_ptr().cast(), 1) };
            }
            Kind::Event => {
                quietly(&mut add);
                // SAFETY: eight bytes from a valid place.
                unsafe { libc::write(self.event, (&raw const ONE).cast(), 8) };
            }
            Kind::Poll | Kind::Spin => quietly(&mut add),
            Kind::Batch => self.queue.signal_if(|| {
                // SAFETY: under the queue's mutex.
                let was_empty = unsafe { (*self.items.get()).is_empty() };
                add();
                was_empty
            }),
        }
    }

    #[inline(never)]
    pub fn pop(&self) -> T {
        // SAFETY: under the queue's mutex.
        let take = || unsafe { (*self.items.get()).pop_front() };
        let quietly = || {
            // SAFETY: the mutex is initialised.
            unsafe {
                libc::pthread_mutex_lock(self.queue.mutex.get());
                let item = take();
                libc::pthread_mutex_unlock(self.queue.mutex.get());
                item
            }
        };
        loop {
            let mut byte = 0u64;
            match self.kind {
                Kind::Condition => return self.queue.wait(take),
                // SAFETY: initialised.
                Kind::Semaphore => unsafe {
                    libc::sem_wait(self.semaphore.get());
                },
                // SAFETY: one byte to a valid place.
                Kind::Pipe => unsafe {
                    libc::read(self.pipe[0], (&raw mut byte).cast(), 1);
                },
                Kind::Event => {
                    let mut what = libc::epoll_event { events: 0, u64: 0 };
                    // SAFETY: one event and eight bytes to valid places.
                    unsafe {
                        libc::epoll_wait(self.poll, &raw mut what, 1, -1);
                        libc::read(self.event, (&raw mut byte).cast(), 8);
                    }
                }
                Kind::Poll => std::thread::sleep(std::time::Duration::from_micros(300)),
                Kind::Spin => (0..2_000).for_each(|_| std::hint::spin_loop()),
                Kind::Batch => return self.queue.wait(take),
                Kind::Ring => by_ring(self.pipe[0]),
            }
            if let Some(item) = quietly() {
                return item;
            }
        }
    }
}

static ONE: u64 = 1;

/// Reads a byte of a pipe by the thread's own ring.
fn by_ring(pipe: i32) {
    thread_local! {
        static RING: RefCell<IoUring> = RefCell::new(IoUring::new(2).expect("a ring"));
    }
    RING.with_borrow_mut(|ring| {
        let mut byte = 0u8;
        let read = opcode::Read::new(types::Fd(pipe), &raw mut byte, 1).build();
        // SAFETY: the byte lives until the read has completed, for which `submit_and_wait` waits.
        unsafe { ring.submission().push(&read).expect("room for one") };
        while ring.completion().next().is_none() {
            let _ = ring.submit_and_wait(1);
        }
    });
}
