//! `error`: requests that fail, are partly written, or come back with a bit inverted.

use super::settings::{LayerError, Settings};
use super::{Fault, Layer, Verdict};
use headworks_policy::Nanos;
use headworks_policy::block::{Operation, Request, SECTOR_BYTES};
use headworks_policy::random::Random;

/// What is to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Error(i32),
    Torn,
    Flip,
}

/// Which requests get a fault, and which fault.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    kind: Kind,
    only: Option<Operation>,
    /// First and last sector.
    sectors: (u64, u64),
    /// Requests to let pass first.
    skip: u64,
    /// Those left to go wrong.
    count: u64,
    probability: f64,
    random: Random,
    faults: u64,
}

impl Faults {
    /// An example of valid settings.
    pub(super) const EXAMPLE: &'static str =
        "error:op=write,sector=1000-2000,count=3,kind=eio,probability=0.1,seed=7";

    /// From text: `kind=` eio (default), enospc, torn, flip; `op=` read, write, flush, discard,
    /// zero; `sector=FIRST-LAST`; `skip=` requests to let pass first; `count=` most faults;
    /// `probability=`; `seed=`.
    pub(super) fn parse(text: &str) -> Result<Faults, LayerError> {
        let mut settings = Settings::new(text, Self::EXAMPLE)?;
        let kinds = [
            ("eio", Kind::Error(libc::EIO)),
            ("enospc", Kind::Error(libc::ENOSPC)),
            ("torn", Kind::Torn),
            ("flip", Kind::Flip),
        ];
        let operations = [
            ("read", Operation::Read),
            ("write", Operation::Write),
            ("flush", Operation::Flush),
            ("discard", Operation::Discard),
            ("zero", Operation::WriteZeroes),
        ];
        let kind = settings.take_word("kind", &kinds)?.unwrap_or(Kind::Error(libc::EIO));
        let only = settings.take_word("op", &operations)?;
        let sectors = settings.take_range("sector")?.unwrap_or((0, u64::MAX));
        let skip = settings.take_number("skip")?.unwrap_or(0);
        let count = settings.take_number("count")?.unwrap_or(u64::MAX);
        let probability = settings.take_fraction("probability")?.unwrap_or(1.0);
        let seed = settings.take_number("seed")?.unwrap_or(1);
        let possible = match kind {
            Kind::Error(_) => true,
            Kind::Torn => only.is_none_or(|only| only == Operation::Write),
            Kind::Flip => {
                only.is_none_or(|only| matches!(only, Operation::Read | Operation::Write))
            }
        };
        if !possible {
            return Err(settings.error("only writes can be torn, only reads and writes have bits"));
        }
        settings.finish()?;
        let random = Random::new(seed);
        Ok(Faults { kind, only, sectors, skip, count, probability, random, faults: 0 })
    }

    fn concerns(&self, request: &Request) -> bool {
        let possible = match self.kind {
            Kind::Error(_) => true,
            Kind::Torn => request.operation == Operation::Write,
            Kind::Flip => matches!(request.operation, Operation::Read | Operation::Write),
        };
        let (first, last) = self.sectors;
        possible
            && self.only.is_none_or(|only| only == request.operation)
            && request.sector <= last
            && (request.end() > first || request.sectors == 0 && request.sector >= first)
    }
}

impl Layer for Faults {
    fn name(&self) -> &'static str {
        "error"
    }

    fn admit(&mut self, _now: Nanos, request: &Request) -> Verdict {
        if self.count == 0 || !self.concerns(request) {
            return Verdict::default();
        }
        // One random number for each request, so that the same requests fail whatever the count is.
        let hit = self.random.unit() < self.probability;
        if self.skip > 0 {
            self.skip -= 1;
            return Verdict::default();
        }
        if !hit {
            return Verdict::default();
        }
        self.count -= 1;
        self.faults += 1;
        let sectors = u64::from(request.sectors).max(1);
        let fault = match self.kind {
            Kind::Error(errno) => Fault::Error(errno),
            // Below the number of sectors, which is 32 bits wide.
            Kind::Torn => Fault::Torn { sectors: self.random.below(sectors) as u32 },
            Kind::Flip => Fault::Flip {
                // Requests with data are shorter than 4 GiB.
                byte: self.random.below(sectors * SECTOR_BYTES) as u32,
                bit: self.random.below(8) as u8,
            },
        };
        Verdict { hold_until: Nanos(0), fault: Some(fault) }
    }

    fn figures(&self) -> Vec<(String, f64)> {
        vec![("faults".to_owned(), self.faults as f64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(layer: &mut Faults, operation: Operation, sectors: &[(u64, u32)]) -> Vec<bool> {
        sectors
            .iter()
            .map(|(at, len)| {
                layer.admit(Nanos(0), &Request::new(operation, *at, *len)).fault.is_some()
            })
            .collect()
    }

    #[test]
    fn only_what_touches_the_range_fails_and_only_so_often() {
        let mut layer = Faults::parse("error:op=write,sector=1000-1999,count=2").unwrap();
        let at = [(0, 8), (992, 8), (993, 8), (2000, 8), (1999, 1), (1500, 8)];
        assert_eq!(faults(&mut layer, Operation::Read, &at), [false; 6]);
        assert_eq!(
            faults(&mut layer, Operation::Write, &at),
            [false, false, true, false, true, false]
        );
    }

    #[test]
    fn a_tenth_fails_and_the_same_tenth_with_the_same_seed() {
        let run = |seed: u64| {
            let mut layer = Faults::parse(&format!("error:probability=0.1,seed={seed}")).unwrap();
            faults(&mut layer, Operation::Read, &[(5, 8); 10_000])
        };
        let first = run(7);
        let hits = first.iter().filter(|hit| **hit).count();
        // Mean 1,000, standard deviation √(10,000 · 0.1 · 0.9) = 30: five of them.
        assert!((850..=1_150).contains(&hits), "{hits}");
        assert_eq!(first, run(7));
        assert_ne!(first, run(8));
    }

    #[test]
    fn torn_writes_lose_their_end_and_flips_lie_within_the_data() {
        let mut torn = Faults::parse("error:kind=torn").unwrap();
        let mut flip = Faults::parse("error:kind=flip,op=read").unwrap();
        for _ in 0..1_000 {
            match torn.admit(Nanos(0), &Request::new(Operation::Write, 0, 8)).fault {
                Some(Fault::Torn { sectors }) => assert!(sectors < 8),
                other => panic!("{other:?}"),
            }
            match flip.admit(Nanos(0), &Request::new(Operation::Read, 0, 8)).fault {
                Some(Fault::Flip { byte, bit }) => assert!(byte < 4096 && bit < 8),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(torn.admit(Nanos(0), &Request::new(Operation::Read, 0, 8)), Verdict::default());
        assert!(Faults::parse("error:kind=torn,op=read").is_err());
    }

    #[test]
    fn the_first_ones_may_be_let_pass() {
        let mut layer = Faults::parse("error:op=flush,skip=2,count=1").unwrap();
        assert_eq!(faults(&mut layer, Operation::Flush, &[(0, 0); 4]), [false, false, true, false]);
    }
}
