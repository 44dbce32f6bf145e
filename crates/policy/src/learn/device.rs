//! What a device can do, from what it completes.
//!
//! # Problem
//! Shares are parts of a device, so it must be known when the device is full, and what a request
//! takes of it. No table of models says so: one flash does a thousand times what another does,
//! writes cost more than reads, and more once a cache is full. If a request seems cheaper than it
//! is, a full device looks idle, and an application with half of it seems to need a hundredth.
//!
//! # The primitive
//! While requests are with the device, its time is theirs in equal parts: with n of them, each is
//! charged dt/n. What is charged from its start to its end is a request's *price*. Both are of
//! virtual time `V = ∫ dt/n`, so a price is V at the end less V at the start. The prices of all
//! requests add up to the time in which the device worked. If the device is full they are what it
//! takes of it, however many it serves at a time. If it is not, they are upper bounds, since it
//! could have served others meanwhile.
//!
//! For reads, writes and flushes, `price = a + b · sectors` is fitted over the last windows:
//!
//! * The device is *full* if requests waited for it nearly all the time, and it had half of what it
//!   may have. Such windows count. Others count if they make a price lower, or none is known.
//! * Requests of one size do not tell a and b apart: then both are scaled.
//!
//! The device is *busy* for the time that its requests are worth, and for the time that others
//! waited for it: whatever the reason, it had no more to give.
//!
//! # Invariants
//! Prices are finite, and never below a nanosecond. A window without requests changes nothing.
//!
//! # Worked example
//! A disk serves one request at a time, in 5 ms. With 32 before it, a request is there for 160 ms,
//! of which a 32nd part is charged: 5 ms. Flash serves 32 at a time in 0.1 ms each: 3 µs. With one
//! before it at a time it is charged 0.1 ms, which is an upper bound.

/// Reads, writes, and flushes.
pub const KINDS: usize = 3;

/// Part of what was seen that is kept from window to window: five windows.
const KEPT: f64 = 0.8;

/// Part of a window in which requests wait for a device that is full.
const WAITED: f64 = 0.8;

/// Part of the depth that a device has while it is full.
const FILLED: f64 = 0.5;

/// Sectors of a request as databases make them: 16 KiB.
pub const ORDINARY: f64 = 32.0;

/// Requests, and spread of their sizes (variance by square of the mean), that tell a from b.
const ENOUGH: f64 = 20.0;
const SPREAD: f64 = 0.1;

/// What a request takes of the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// However small it is, in nanoseconds.
    pub request_ns: f64,
    /// For each sector, in nanoseconds.
    pub sector_ns: f64,
}

impl Price {
    /// Of a request of so many sectors, in nanoseconds.
    pub fn of(&self, sectors: f64) -> f64 {
        (self.request_ns + self.sector_ns * sectors).max(1.0)
    }
}

/// What was completed of one kind: sums over requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// Requests.
    pub count: f64,
    /// Sectors.
    pub sectors: f64,
    /// Squares of sectors.
    pub squares: f64,
    /// Prices, in nanoseconds.
    pub price_ns: f64,
    /// Prices times sectors.
    pub product: f64,
}

impl Served {
    /// One more.
    pub fn add(&mut self, sectors: f64, price_ns: f64) {
        self.count += 1.0;
        self.sectors += sectors;
        self.squares += sectors * sectors;
        self.price_ns += price_ns;
        self.product += price_ns * sectors;
    }

    /// What came since `before`.
    pub fn since(&self, before: &Served) -> Served {
        Served {
            count: self.count - before.count,
            sectors: self.sectors - before.sectors,
            squares: self.squares - before.squares,
            price_ns: self.price_ns - before.price_ns,
            product: self.product - before.product,
        }
    }

    fn fade(&mut self, seen: &Served) {
        for (old, new) in [
            (&mut self.count, seen.count),
            (&mut self.sectors, seen.sectors),
            (&mut self.squares, seen.squares),
            (&mut self.price_ns, seen.price_ns),
            (&mut self.product, seen.product),
        ] {
            *old = KEPT * *old + new;
        }
    }

    /// What they are worth at this price.
    fn worth_ns(&self, price: &Price) -> f64 {
        price.request_ns * self.count + price.sector_ns * self.sectors
    }

    /// The price that fits them best; `before` says how a and b are to each other.
    fn fit(&self, before: &Price) -> Price {
        let spread = self.count * self.squares - self.sectors * self.sectors;
        if self.count >= ENOUGH && spread > SPREAD * self.sectors * self.sectors {
            let slope = (self.count * self.product - self.sectors * self.price_ns) / spread;
            let sector_ns = slope.clamp(0.0, self.price_ns / self.sectors);
            let request_ns = (self.price_ns - sector_ns * self.sectors) / self.count;
            return Price { request_ns: request_ns.max(1.0), sector_ns };
        }
        let scale = self.price_ns / self.worth_ns(before).max(1.0);
        Price {
            request_ns: (before.request_ns * scale).max(1.0),
            sector_ns: before.sector_ns * scale,
        }
    }
}

/// What the device did in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Reads, writes, flushes.
    pub kinds: [Served; KINDS],
    /// Its length.
    pub seconds: f64,
    /// Part of it in which requests waited for the device.
    pub waited: f64,
    /// Requests with the device on average, as a part of the most.
    pub filled: f64,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    guess: [Price; KINDS],
    prices: [Price; KINDS],
    sums: [Served; KINDS],
    /// Whether the price is of a full device.
    full: [bool; KINDS],
    /// Whether any was seen.
    seen: [bool; KINDS],
}

impl Device {
    /// With these prices as a first guess, for reads, writes and flushes.
    pub fn new(prices: [Price; KINDS]) -> Device {
        let none = [false; KINDS];
        Device { guess: prices, prices, sums: [Served::default(); KINDS], full: none, seen: none }
    }

    /// The prices of reads, writes and flushes. Of what was not seen, the first guess, as far off
    /// as those of the others were.
    pub fn prices(&self) -> [Price; KINDS] {
        let off =
            |kind: &usize| (self.prices[*kind].of(ORDINARY) / self.guess[*kind].of(ORDINARY)).ln();
        let seen = || (0..KINDS).filter(|kind| self.seen[*kind]);
        let factor =
            (seen().map(|kind| off(&kind)).sum::<f64>() / seen().count().max(1) as f64).exp();
        core::array::from_fn(|kind| {
            if self.seen[kind] {
                return self.prices[kind];
            }
            let Price { request_ns, sector_ns } = self.guess[kind];
            Price { request_ns: request_ns * factor, sector_ns: sector_ns * factor }
        })
    }

    /// Whether each was learned while the device was full.
    pub fn is_learned(&self) -> [bool; KINDS] {
        self.full
    }

    /// A window is over. Says for which part of it the device was busy.
    pub fn window(&mut self, seen: &Window) -> f64 {
        let full = seen.waited > WAITED && seen.filled > FILLED;
        for kind in 0..KINDS {
            let served = &seen.kinds[kind];
            if served.count < 1.0 {
                continue;
            }
            let dearer = served.price_ns > served.worth_ns(&self.prices[kind]);
            if !full && self.seen[kind] && self.full[kind] && dearer {
                continue;
            }
            if full != self.full[kind] && full {
                // Upper bounds are no longer of use.
                self.sums[kind] = Served::default();
            }
            self.full[kind] |= full;
            self.seen[kind] = true;
            self.sums[kind].fade(served);
            self.prices[kind] = self.sums[kind].fit(&self.prices[kind]);
        }
        let worth: f64 =
            seen.kinds.iter().zip(&self.prices).map(|(kind, price)| kind.worth_ns(price)).sum();
        (worth / 1e9 / seen.seconds.max(1e-3)).max(seen.waited).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::vec::Vec;

    /// A device that serves so many requests at a time.
    struct Fake {
        servers: usize,
        /// Milliseconds of a request and of a sector: reads, writes, flushes.
        costs: [(f64, f64); KINDS],
        /// Sectors that are written at a tenth of the cost, before the cache is full.
        cache: f64,
    }

    /// Requests of one client, each after the one before.
    #[derive(Clone, Copy)]
    struct Client {
        kind: usize,
        sectors: f64,
        think_ms: f64,
    }

    /// Runs for so many seconds. Returns for each the busy part and the requests that were served
    /// of each kind.
    fn run(
        fake: &mut Fake,
        device: &mut Device,
        clients: &[Client],
        depth: usize,
        seconds: usize,
        random: &mut Random,
    ) -> Vec<(f64, [f64; KINDS])> {
        // Requests: client, when it starts at a server, when it ends, V at its start.
        let mut inside: Vec<(usize, f64, f64)> = Vec::new();
        let mut waiting: Vec<usize> = Vec::new();
        let mut comes: Vec<(f64, usize)> =
            (0..clients.len()).map(|client| (random.unit() * 10.0, client)).collect();
        let mut servers = std::vec![0.0_f64; fake.servers];
        let (mut now, mut v) = (0.0_f64, 0.0_f64);
        let (mut seen, mut waited, mut filled) = (Window::default(), 0.0, 0.0);
        let mut out = Vec::new();
        for second in 1..=seconds {
            let end = 1_000.0 * second as f64;
            loop {
                while inside.len() < depth && !waiting.is_empty() {
                    let client = waiting.remove(0);
                    let Client { kind, sectors, .. } = clients[client];
                    let (request, sector) = fake.costs[kind];
                    let mut cost = request + sector * sectors;
                    if kind == 1 && fake.cache > 0.0 {
                        fake.cache -= sectors;
                        cost *= 0.1;
                    }
                    let server = servers.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
                    let done = server.max(now) + cost * (0.8 + 0.4 * random.unit());
                    *server = done;
                    inside.push((client, done, v));
                }
                let next_done = inside.iter().map(|one| one.1).fold(f64::MAX, f64::min);
                let next_come = comes.iter().map(|one| one.0).fold(f64::MAX, f64::min);
                let next = next_done.min(next_come).min(end);
                let passed = next - now;
                if !inside.is_empty() {
                    v += passed / inside.len() as f64;
                    filled += passed * inside.len() as f64;
                }
                waited += if waiting.is_empty() { 0.0 } else { passed };
                now = next;
                if next == end {
                    break;
                }
                if next == next_done {
                    let at = inside.iter().position(|one| one.1 == next).unwrap();
                    let (client, _, start) = inside.remove(at);
                    let Client { kind, sectors, think_ms } = clients[client];
                    seen.kinds[kind].add(sectors, (v - start) * 1e6);
                    comes.push((now - think_ms * random.unit().max(1e-9).ln(), client));
                } else {
                    let at = comes.iter().position(|one| one.0 == next).unwrap();
                    waiting.push(comes.remove(at).1);
                }
            }
            seen.seconds = 1.0;
            seen.waited = waited / 1_000.0;
            seen.filled = filled / 1_000.0 / 32.0;
            let counts = seen.kinds.map(|kind| kind.count);
            out.push((device.window(&seen), counts));
            (seen, waited, filled) = (Window::default(), 0.0, 0.0);
        }
        out
    }

    /// 20 µs and 1 µs a sector, as flash is usually taken to be.
    fn guess() -> Device {
        let price = Price { request_ns: 20e3, sector_ns: 1e3 };
        Device::new([price, price, Price { request_ns: 1e5, sector_ns: 0.0 }])
    }

    /// Fast flash, slow flash, a disk, an array of disks: at a time, read, write and flush.
    fn fakes() -> [(&'static str, Fake); 4] {
        let fake = |servers, read, write, flush| Fake {
            servers,
            costs: [read, write, (flush, 0.0)],
            cache: 0.0,
        };
        [
            ("fast flash", fake(16, (0.8, 0.002), (0.2, 0.005), 3.0)),
            ("slow flash", fake(2, (0.5, 0.005), (2.0, 0.02), 8.0)),
            ("disk", fake(1, (8.0, 0.004), (8.0, 0.004), 12.0)),
            ("array", fake(15, (6.0, 0.05), (7.0, 0.05), 9.0)),
        ]
    }

    fn clients(count: usize, kind: usize, sectors: f64, think_ms: f64) -> Vec<Client> {
        std::vec![Client { kind, sectors, think_ms }; count]
    }

    #[test]
    fn a_full_device_is_busy_and_its_prices_are_what_it_does() {
        for (name, mut fake) in fakes() {
            let mut random = Random::new(1);
            let mut device = guess();
            for (kind, sectors) in [(0, 32.0), (1, 32.0), (0, 256.0)] {
                let many = clients(100, kind, sectors, 0.0);
                let seconds = run(&mut fake, &mut device, &many, 32, 20, &mut random);
                let (busy, counts) = seconds[19];
                let rate = 1e9 / device.prices()[kind].of(sectors);
                let real = seconds[10..].iter().map(|second| second.1[kind]).sum::<f64>() / 10.0;
                assert!(busy > 0.99, "{name}: {busy} {counts:?}");
                assert!(
                    (rate / real - 1.0).abs() < 0.15,
                    "{name} {kind} {sectors}: {rate} of {real}"
                );
            }
        }
    }

    #[test]
    fn a_full_device_is_busy_although_best_effort_may_have_few_requests() {
        for (name, mut fake) in fakes() {
            let mut random = Random::new(2);
            let mut device = guess();
            let many = clients(100, 0, 32.0, 0.0);
            run(&mut fake, &mut device, &many, 32, 10, &mut random);
            let before = device.prices()[0];
            let seconds = run(&mut fake, &mut device, &many, 3, 20, &mut random);
            assert!(seconds[19].0 > 0.99, "{name}: others wait");
            let price = device.prices()[0].of(32.0);
            // What a device does with few is not what it can do with many.
            assert!((price / before.of(32.0) - 1.0).abs() < 0.3, "{name}: {price}");
        }
    }

    #[test]
    fn reads_and_writes_are_told_apart_in_a_mix() {
        let (_, mut fake) = fakes().into_iter().nth(1).unwrap();
        let mut device = guess();
        let mut random = Random::new(3);
        let mut mix = clients(40, 0, 32.0, 0.0);
        mix.extend(clients(40, 1, 32.0, 0.0));
        mix.extend(clients(2, 2, 0.0, 20.0));
        run(&mut fake, &mut device, &mix, 32, 30, &mut random);
        let [read, write, flush] = device.prices().map(|price| price.of(32.0));
        // In one queue all wait for all: a read is charged for the writes before it.
        // Only the order of the prices can be checked.
        assert!(
            read <= write && write < 2e6 && read > 0.3e6 && flush > 0.3e6,
            "{read} {write} {flush}"
        );
    }

    #[test]
    fn a_database_alone_has_the_device_for_the_time_that_it_works() {
        for (name, mut fake) in fakes() {
            let mut random = Random::new(4);
            let mut device = guess();
            let mut database = clients(3, 0, 16.0, 5.0);
            database.extend(clients(1, 2, 0.0, 5.0));
            let seconds = run(&mut fake, &mut device, &database, 32, 20, &mut random);
            let alone = seconds[10..].iter().map(|second| second.0).sum::<f64>() / 10.0;
            // Nothing is known of what it could do beside that. Fast flash reads for 0.83 ms of
            // 5.83 and flushes for 3 of 8: it has something for 1 − (5/5.83)³ · 5/8 = 0.61 of the
            // time.
            let most = if name == "fast flash" { 0.66 } else { 1.0 };
            assert!(alone > 0.02 && alone <= most, "{name}: {alone}");
            let many = clients(100, 0, 32.0, 0.0);
            run(&mut fake, &mut device, &many, 32, 10, &mut random);
            let seconds = run(&mut fake, &mut device, &database, 32, 20, &mut random);
            let later = seconds[10..].iter().map(|second| second.0).sum::<f64>() / 10.0;
            assert!(later <= alone * 1.05, "{name}: {later} of {alone}");
        }
    }

    #[test]
    fn writes_that_slow_down_once_a_cache_is_full_are_seen_and_their_end_too() {
        let mut fake =
            Fake { servers: 4, costs: [(0.2, 0.001), (1.0, 0.01), (2.0, 0.0)], cache: 0.0 };
        let mut device = guess();
        let mut random = Random::new(5);
        let writers = clients(64, 1, 32.0, 0.0);
        let price = |device: &Device| device.prices()[1].of(32.0) / 1e6;
        let mut first = 0.0;
        for cache in [5e7, 5e7] {
            fake.cache = cache;
            run(&mut fake, &mut device, &writers, 32, 10, &mut random);
            assert!(fake.cache > 0.0);
            first = price(&device);
            assert!((first / (0.1 * 1.32 / 4.0) - 1.0).abs() < 0.2, "{first}");
            // The rest of the cache, and twenty seconds.
            fake.cache = 0.0;
            run(&mut fake, &mut device, &writers, 32, 20, &mut random);
            let full = price(&device);
            assert!((full / (1.32 / 4.0) - 1.0).abs() < 0.2, "{full}");
        }
        assert!(first > 0.0);
    }

    #[test]
    fn nonsense_leaves_prices_finite() {
        let mut device = guess();
        for seconds in [0.0, 1.0] {
            let served = Served { count: 5.0, ..Served::default() };
            let seen = Window { kinds: [served; KINDS], seconds, waited: 1.0, filled: 1.0 };
            let busy = device.window(&seen);
            assert!((0.0..=1.0).contains(&busy), "{busy}");
            assert!(device.prices().iter().all(|price| price.of(1e9).is_finite()));
        }
    }
}
