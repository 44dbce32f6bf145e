//! Token buckets: what an account may use of the device, however it uses it.
//!
//! # Problem
//! A cap at the system call charges bytes as they are asked for. It charges too little for random
//! I/O, so that others are not isolated, and too much for pages that are written over in memory
//! (Split, section 2.2.2.3).
//!
//! # The primitive
//! [`Token`]: tokens are normalized bytes ([`DeviceCost::bytes`]). An account is throttled if and
//! only if its tokens, or those of a group that it belongs to, are used up. Throttled are writes,
//! `fsync`s and metadata calls at the system call, and reads at the block level. Cached reads and
//! block writes never are. Pages are charged when they become dirty, by the preliminary model, and
//! the charge is revised when they are written or deleted.
//!
//! [`ScsToken`] is the scheduler that the paper compares with: each call waits until its own bytes
//! can be paid for. It knows nothing of caches and devices, and is here for comparison only.
//!
//! # Invariants
//! Over any time t, an account with rate r and burst b is charged at most `r·t + b`, plus one task.
//!
//! # Worked example
//! An account may use 1 MB a second of a disk with seeks of 8 ms and 128 MB/s. A random page costs
//! 1.03 MB, so the account gets one a second. Sequential writes run at 1 MB a second. Writes to
//! pages that are dirty already run at the speed of memory.
//!
//! Source: Split, section 2.5.3.

use super::waiting::{Waiter, Waiting};
use super::{
    ACCOUNTS, Account, AccountSettings, Call, CauseSet, Cleaned, DeviceCost, Dirtied, Entry, Freed,
    GROUPS, Scheduler, Step, Task,
};
use crate::Nanos;
use crate::block::{Operation, Request, SECTOR_BYTES};
use crate::bucket::Bucket;

/// The buckets, and who waits for them.
#[derive(Clone, Debug)]
#[repr(C)]
struct Buckets {
    waiting: Waiting,
    bucket: [Bucket; ACCOUNTS],
    /// Not zero: the account has a rate.
    limited: [u8; ACCOUNTS],
    /// Accounts of the groups, plus one.
    groups: [[u16; GROUPS]; ACCOUNTS],
}

crate::layout!(Buckets { waiting, bucket, limited, groups });

impl Default for Buckets {
    fn default() -> Self {
        Buckets {
            waiting: Waiting::default(),
            bucket: [Bucket::default(); ACCOUNTS],
            limited: [0; ACCOUNTS],
            groups: [[0; GROUPS]; ACCOUNTS],
        }
    }
}

impl Buckets {
    fn set(&mut self, now: Nanos, account: Account, settings: &AccountSettings) {
        let at = usize::from(account);
        if at >= ACCOUNTS {
            return;
        }
        self.groups[at] =
            settings.groups.map(|group| group.map_or(0, |group| group.saturating_add(1)));
        match settings.rate {
            Some(rate) if self.limited[at] != 0 => self.bucket[at].set_rate(rate, now),
            Some(rate) => {
                let burst = if settings.burst > 0 { settings.burst } else { rate as u64 };
                self.bucket[at] = Bucket::new(rate, burst, now);
            }
            None => {}
        }
        self.limited[at] = u8::from(settings.rate.is_some());
    }

    /// Of the account and its groups, those that have a limit.
    fn limits(&self, account: Account) -> impl Iterator<Item = usize> + use<'_> {
        let own = usize::from(account);
        let groups = self.groups.get(own).copied().unwrap_or_default();
        let groups = groups.into_iter().filter_map(|group| usize::from(group).checked_sub(1));
        core::iter::once(own)
            .chain(groups)
            .filter(|at| self.limited.get(*at).is_some_and(|limited| *limited != 0))
    }

    /// Time until the account may go on; zero if now.
    fn wait(&self, now: Nanos, account: Account) -> Nanos {
        let wait = |at: usize| {
            let mut bucket = self.bucket[at];
            bucket.wait(now)
        };
        self.limits(account).map(wait).max().unwrap_or_default()
    }

    fn each(&mut self, account: Account, mut change: impl FnMut(&mut Bucket)) {
        let mut all = [ACCOUNTS; 1 + GROUPS];
        for (place, at) in all.iter_mut().zip(self.limits(account)) {
            *place = at;
        }
        for at in all {
            if let Some(bucket) = self.bucket.get_mut(at) {
                change(bucket);
            }
        }
    }

    /// What a dead thread of the account owed is forgotten.
    fn forget(&mut self, account: Account) {
        if let Some(limited) = self.limited.get_mut(usize::from(account)) {
            *limited = 0;
        }
    }

    fn take(&mut self, now: Nanos, account: Account, bytes: u64) {
        self.each(account, |bucket| {
            bucket.wait(now);
            bucket.take(bytes);
        });
    }

    fn give(&mut self, account: Account, bytes: u64) {
        self.each(account, |bucket| bucket.give(bytes));
    }

    fn enter(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if self.wait(now, call.account) == Nanos(0) {
            return Entry::Go;
        }
        self.waiting.insert(task, Waiter { call: *call, arrived: now, mark: 0 });
        Entry::Wait
    }

    /// The next step, and the call that goes on by it.
    fn dispatch(&mut self, now: Nanos) -> (Step, Option<Call>) {
        // An account's tasks go first come, first served; the others see what the first was
        // charged.
        let next = self
            .waiting
            .iter()
            .map(|(task, waiter)| (self.wait(now, waiter.call.account), waiter.arrived, task))
            .min();
        match next {
            Some((Nanos(0), _, task)) => {
                let waiter = self.waiting.remove(task);
                (Step::Admit(task), waiter.map(|waiter| waiter.call))
            }
            Some((wait, _, _)) => (Step::Wait(now + wait), None),
            None => (Step::Idle, None),
        }
    }
}

/// Split-Token. See the module.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct Token {
    buckets: Buckets,
    device: DeviceCost,
}

crate::layout!(Token { buckets, device });

impl Token {
    /// No account is limited.
    pub fn new(device: DeviceCost) -> Self {
        Token { buckets: Buckets::default(), device }
    }

    /// Sets up a state of all zero bytes.
    pub(super) fn begin(&mut self, device: DeviceCost) {
        self.device = device;
    }

    /// Time until the account's next call may go on; zero if now.
    pub(super) fn wait(&self, now: Nanos, account: Account) -> Nanos {
        self.buckets.wait(now, account)
    }

    fn charge(&mut self, now: Nanos, account: Account, cost: Nanos) {
        self.buckets.take(now, account, self.device.bytes(cost));
    }

    /// Corrects what causes were charged. Those that were not charged are left out.
    pub(super) fn revise(
        &mut self,
        now: Nanos,
        causes: CauseSet,
        (charged, cost): (Nanos, Nanos),
        was_charged: impl Fn(Account) -> bool,
    ) {
        let (charged, cost) = (self.device.bytes(charged), self.device.bytes(cost));
        let more = cost.saturating_sub(charged);
        let less = charged.saturating_sub(cost);
        causes.share(more, |account, part| {
            if was_charged(account) {
                self.buckets.take(now, account, part);
            }
        });
        causes.share(less, |account, part| {
            if was_charged(account) {
                self.buckets.give(account, part);
            }
        });
    }
}

impl Scheduler for Token {
    fn name(&self) -> &'static str {
        "split-token"
    }

    fn set_account(&mut self, now: Nanos, account: Account, settings: &AccountSettings) {
        self.buckets.set(now, account, settings);
    }

    fn forget_account(&mut self, account: Account) {
        self.buckets.forget(account);
    }

    fn write_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.buckets.enter(now, task, call)
    }
    fn fsync_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.buckets.enter(now, task, call)
    }
    fn fsync_return(&mut self, now: Nanos, _: Task, call: &Call, _: Nanos) {
        self.charge(now, call.account, self.device.runs(1, super::PAGE_BYTES));
    }
    fn creat_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.buckets.enter(now, task, call)
    }
    fn creat_return(&mut self, now: Nanos, _: Task, call: &Call) {
        self.charge(now, call.account, self.device.transfer(super::PAGE_BYTES));
    }
    fn mkdir_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.buckets.enter(now, task, call)
    }
    fn mkdir_return(&mut self, now: Nanos, task: Task, call: &Call) {
        self.creat_return(now, task, call);
    }

    fn buffer_dirty(&mut self, now: Nanos, dirtied: &Dirtied) {
        self.charge(now, dirtied.account, dirtied.cost);
    }
    fn buffer_free(&mut self, now: Nanos, freed: &Freed) {
        self.revise(now, freed.causes, (freed.cost, Nanos(0)), |_| true);
    }
    fn buffer_clean(&mut self, now: Nanos, cleaned: &Cleaned) {
        self.revise(now, cleaned.causes, (cleaned.charged, cleaned.cost), |_| true);
    }

    fn req_add(&mut self, now: Nanos, task: Task, request: &Request) -> Entry {
        if request.operation != Operation::Read {
            return Entry::Go;
        }
        let account = Account::try_from(request.cause).unwrap_or(0);
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        self.buckets.enter(now, task, &Call { account, bytes, ..Call::default() })
    }
    fn req_complete(&mut self, now: Nanos, _: Task, request: &Request, service: Nanos) {
        if request.operation == Operation::Read {
            let account = Account::try_from(request.cause).unwrap_or(0);
            let bytes = u64::from(request.sectors) * SECTOR_BYTES;
            // A single read may have waited behind others' requests. It costs a seek and its bytes
            // at most. A read of a stream hardly waits, as the kernel reads ahead. It costs its
            // bytes.
            let cost = match request.sync {
                true => service.min(self.device.runs(1, bytes)),
                false => self.device.transfer(bytes),
            };
            self.charge(now, account, cost);
        }
    }

    fn dispatch(&mut self, now: Nanos) -> Step {
        self.buckets.dispatch(now).0
    }

    fn cancel(&mut self, _: Nanos, task: Task) {
        self.buckets.waiting.remove(task);
    }

    fn waiting(&self) -> usize {
        self.buckets.waiting.len()
    }
}

/// SCS-Token: the rival that schedules system calls only. See the module.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct ScsToken {
    buckets: Buckets,
}

crate::layout!(ScsToken { buckets });

impl ScsToken {
    /// A call is charged its bytes as soon as it goes on.
    fn enter(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        let entry = self.buckets.enter(now, task, call);
        if entry == Entry::Go {
            self.buckets.take(now, call.account, call.bytes);
        }
        entry
    }
}

impl Scheduler for ScsToken {
    fn name(&self) -> &'static str {
        "scs-token"
    }

    fn set_account(&mut self, now: Nanos, account: Account, settings: &AccountSettings) {
        self.buckets.set(now, account, settings);
    }

    fn forget_account(&mut self, account: Account) {
        self.buckets.forget(account);
    }

    fn write_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.enter(now, task, call)
    }
    fn read_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.enter(now, task, call)
    }

    fn dispatch(&mut self, now: Nanos) -> Step {
        let (step, call) = self.buckets.dispatch(now);
        if let Some(call) = call {
            self.buckets.take(now, call.account, call.bytes);
        }
        step
    }

    fn cancel(&mut self, _: Nanos, task: Task) {
        self.buckets.waiting.remove(task);
    }

    fn waiting(&self) -> usize {
        self.buckets.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::IoClass;

    const MIB: u64 = 1 << 20;

    fn write(account: Account, bytes: u64) -> Call {
        Call { account, bytes, ..Call::default() }
    }

    fn limited(rate: f64, group: Option<Account>) -> AccountSettings {
        AccountSettings { rate: Some(rate), ..within([group, None, None]) }
    }

    fn within(groups: [Option<Account>; GROUPS]) -> AccountSettings {
        AccountSettings { groups, ..AccountSettings::default() }
    }

    fn dirtied(account: Account, bytes: u64, cost: Nanos) -> Dirtied {
        Dirtied { account, new_bytes: bytes, cost, ..Dirtied::default() }
    }

    /// Writes by one account, as fast as it may, for so many seconds. Returns how many.
    fn writes(token: &mut dyn Scheduler, bytes: u64, cost: Nanos, seconds: u64) -> u64 {
        let (mut now, mut count) = (Nanos(0), 0);
        while now < Nanos::from_millis(1_000 * seconds) {
            if token.write_entry(now, 7, &write(1, bytes)) == Entry::Wait {
                let Step::Wait(until) = token.dispatch(now) else { panic!("it waits for tokens") };
                now = until;
                assert_eq!(token.dispatch(now), Step::Admit(7));
            }
            token.buffer_dirty(now, &dirtied(1, bytes, cost));
            token.write_return(now, 7, &write(1, bytes));
            count += 1;
            now += Nanos::from_micros(10);
        }
        count
    }

    #[test]
    fn the_worked_example() {
        let disk = DeviceCost::DISK;
        let new = || {
            let mut token = Box::new(Token::new(disk));
            token.set_account(Nanos(0), 1, &limited(1e6, None));
            token
        };
        let random = writes(&mut *new(), 4096, disk.access(1 << 40, 0, 4096), 60);
        assert!((59..=61).contains(&random), "{random} random pages in a minute");
        let sequential = writes(&mut *new(), 4096, disk.access(0, 0, 4096), 60) * 4096;
        assert!((59_000_000..63_000_000).contains(&sequential), "{sequential} bytes");
        let over = writes(&mut *new(), 4096, Nanos(0), 1);
        assert!(over >= 100_000, "never held: {over}");
    }

    #[test]
    fn a_read_is_charged_for_itself_and_not_for_what_it_waited_behind() {
        let charged = |sync, service| {
            let mut token = Token::new(DeviceCost::DISK);
            token.set_account(Nanos(0), 1, &limited(MIB as f64, None));
            let read = Request {
                operation: Operation::Read,
                sector: 0,
                sectors: (MIB / SECTOR_BYTES) as u32,
                fua: false,
                sync,
                cause: 1,
                class: IoClass::BestEffort,
                level: 4,
                deadline: None,
                continues: false,
            };
            assert_eq!(token.req_add(Nanos(0), 7, &read), Entry::Go);
            token.req_complete(Nanos(0), 7, &read, service);
            token.req_complete(Nanos(0), 7, &read, service);
            assert_eq!(token.req_add(Nanos(0), 7, &read), Entry::Wait);
            let Step::Wait(until) = token.dispatch(Nanos(0)) else { panic!("it waits for tokens") };
            until
        };
        let (far, near) = (Nanos::from_millis(9_000), Nanos::from_millis(9));
        let seek = charged(true, DeviceCost::DISK.runs(1, MIB));
        assert_eq!(charged(true, far), seek, "it waited behind others");
        assert!(charged(true, near) < seek, "the device was quicker than the model");
        assert_eq!(charged(false, far), charged(false, Nanos(0)), "a stream pays for its bytes");
        assert!(charged(false, far) < seek);
    }

    #[test]
    fn a_revision_charges_more_or_gives_back() {
        let mut token = Box::new(Token::new(DeviceCost::DISK));
        token.set_account(Nanos(0), 1, &limited(1e6, None));
        token.buffer_dirty(Nanos(0), &dirtied(1, 4096, Nanos::from_millis(16)));
        assert_eq!(token.write_entry(Nanos(0), 0, &write(1, 4096)), Entry::Wait);
        let cleaned = Cleaned {
            causes: CauseSet::of(1),
            bytes: 4096,
            charged: Nanos::from_millis(16),
            cost: Nanos::from_millis(1),
            ..Cleaned::default()
        };
        token.buffer_clean(Nanos(0), &cleaned);
        assert_eq!(token.dispatch(Nanos(0)), Step::Admit(0), "it was cheaper than thought");
        let dearer = Cleaned { cost: Nanos::from_millis(40), ..cleaned };
        token.buffer_clean(Nanos(0), &dearer);
        assert_eq!(token.write_entry(Nanos(0), 0, &write(1, 4096)), Entry::Wait);
        let freed =
            Freed { causes: CauseSet::of(1), cost: Nanos::from_millis(40), ..Freed::default() };
        token.buffer_free(Nanos(0), &freed);
        assert_eq!(token.dispatch(Nanos(0)), Step::Admit(0));
    }

    #[test]
    fn a_group_limits_its_members_and_others_are_free() {
        let mut token = Box::new(Token::new(DeviceCost::DISK));
        token.set_account(Nanos(0), 9, &limited(1e6, None));
        token.set_account(Nanos(0), 1, &limited(1e9, Some(9)));
        token.set_account(Nanos(0), 2, &within([Some(9), None, None]));
        token.buffer_dirty(Nanos(0), &dirtied(1, MIB, Nanos::from_millis(100)));
        assert_eq!(token.write_entry(Nanos(0), 0, &write(1, 1)), Entry::Wait);
        assert_eq!(token.write_entry(Nanos(0), 1, &write(2, 1)), Entry::Wait);
        assert_eq!(token.write_entry(Nanos(0), 2, &write(3, 1)), Entry::Go);
        assert_eq!(token.waiting(), 2);
        token.cancel(Nanos(0), 0);
        token.cancel(Nanos(0), 1);
        assert_eq!(token.dispatch(Nanos(0)), Step::Idle);
    }

    #[test]
    fn threads_of_one_section_may_be_in_different_classes() {
        let mut token = Box::new(Token::new(DeviceCost::DISK));
        for group in [8, 9] {
            token.set_account(Nanos(0), group, &limited(1e6, None));
        }
        token.set_account(Nanos(0), 1, &within([Some(8), Some(9), None]));
        token.set_account(Nanos(0), 2, &within([Some(8), None, None]));
        token.set_account(Nanos(0), 3, &within([None, Some(9), None]));
        token.buffer_dirty(Nanos(0), &dirtied(3, MIB, Nanos::from_millis(100)));
        assert_eq!(
            token.write_entry(Nanos(0), 0, &write(1, 1)),
            Entry::Wait,
            "its class is used up"
        );
        assert_eq!(token.write_entry(Nanos(0), 1, &write(2, 1)), Entry::Go, "it has no class");
        token.buffer_dirty(Nanos(0), &dirtied(1, MIB, Nanos::from_millis(100)));
        assert_eq!(token.write_entry(Nanos(0), 2, &write(2, 1)), Entry::Wait, "its section, too");
    }

    /// Why the rival does not isolate: it takes random pages for cheap and cached ones for dear.
    #[test]
    fn scs_charges_what_was_asked_for() {
        let mut scs = Box::new(ScsToken::default());
        scs.set_account(Nanos(0), 1, &limited(1e6, None));
        let random = writes(&mut *scs, 4096, Nanos::from_millis(8), 10);
        assert!(random > 2_000, "{random} random pages, each 8 ms of the device, in 10 s");
        assert_eq!(scs.read_entry(Nanos(0), 3, &write(1, 4096)), Entry::Wait, "cached or not");
    }
}
