//! `rate`: limits bytes and requests a second, in order of arrival.

use super::settings::{LayerError, Settings};
use super::{Layer, Verdict};
use headworks_policy::Nanos;
use headworks_policy::block::{Operation, Request, SECTOR_BYTES};
use headworks_policy::bucket::Bucket;

/// Token buckets of bytes and of requests. Only reads, writes and zeroing count; other requests
/// pass.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    bytes: Option<Bucket>,
    requests: Option<Bucket>,
    only: Option<Operation>,
    held: u64,
}

impl Rate {
    /// An example of valid settings.
    pub(super) const EXAMPLE: &'static str = "rate:bytes=100M,requests=2000,op=write";

    /// From text: `bytes=` and `requests=` a second, `burst=` in bytes (default: a tenth of a
    /// second's worth), `op=` to limit only one kind.
    pub(super) fn parse(text: &str) -> Result<Rate, LayerError> {
        let mut settings = Settings::new(text, Self::EXAMPLE)?;
        let bytes = settings.take_bytes("bytes")?;
        let requests = settings.take_number("requests")?;
        let burst = settings.take_bytes("burst")?;
        let only =
            settings.take_word("op", &[("read", Operation::Read), ("write", Operation::Write)])?;
        if bytes.unwrap_or(0) == 0 && requests.unwrap_or(0) == 0 {
            return Err(settings.error("it limits nothing: write bytes=, requests= or both"));
        }
        settings.finish()?;
        // Rates below 2^53 are exact in a float.
        let bucket = |rate: u64, burst: u64| Bucket::new(rate as f64, burst.max(1), Nanos(0));
        Ok(Rate {
            bytes: bytes.map(|rate| bucket(rate, burst.unwrap_or(rate / 10))),
            requests: requests.map(|rate| bucket(rate, rate / 10)),
            only,
            held: 0,
        })
    }
}

impl Layer for Rate {
    fn name(&self) -> &'static str {
        "rate"
    }

    fn admit(&mut self, now: Nanos, request: &Request) -> Verdict {
        let data = matches!(
            request.operation,
            Operation::Read | Operation::Write | Operation::WriteZeroes
        );
        if !data || self.only.is_some_and(|only| only != request.operation) {
            return Verdict::default();
        }
        let mut wait = Nanos(0);
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        for (bucket, tokens) in [(&mut self.bytes, bytes), (&mut self.requests, 1)] {
            if let Some(bucket) = bucket {
                // Earlier requests have taken their tokens, perhaps into debt: the wait includes
                // it.
                wait = wait.max(bucket.wait(now));
                bucket.take(tokens);
            }
        }
        self.held += u64::from(wait > Nanos(0));
        Verdict { hold_until: now + wait, fault: None }
    }

    fn figures(&self) -> Vec<(String, f64)> {
        vec![("held_requests".to_owned(), self.held as f64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_at_their_rate_in_order() {
        // 1 MiB a second and 64 KiB at once; requests of 64 KiB take 1/16 s each.
        let mut rate = Rate::parse("rate:bytes=1M,burst=64k").unwrap();
        let start = Nanos::from_millis(10_000);
        let mut until: Vec<u64> = Vec::new();
        for n in 0..18 {
            until.push(
                rate.admit(start, &Request::new(Operation::Write, n * 128, 128)).hold_until.0,
            );
        }
        // The first finds the bucket full, the second waits until the debt is paid, and so on.
        assert_eq!(until[0], start.0);
        for n in 2..18u64 {
            let exact = start.0 + (n - 1) * 62_500_000;
            assert!(until[n as usize].abs_diff(exact) <= 2, "{n}: {} {exact}", until[n as usize]);
        }
    }

    #[test]
    fn requests_are_limited_by_kind() {
        let mut rate = Rate::parse("rate:requests=10,op=read").unwrap();
        let now = Nanos::from_millis(5_000);
        let mut hold =
            |operation| rate.admit(now, &Request::new(operation, 0, 8)).hold_until.since(now);
        assert_eq!(hold(Operation::Read), Nanos(0));
        assert!(hold(Operation::Read).0.abs_diff(1) <= 1, "an empty bucket is not in debt");
        // The rate is kept in 48 binary places: 4 in 10 million off at ten a second.
        assert!(hold(Operation::Read).0.abs_diff(100_000_000) <= 50);
        assert_eq!(hold(Operation::Write), Nanos(0));
        assert_eq!(hold(Operation::Flush), Nanos(0));
    }
}
