//! Writes families of metrics. Names follow Prometheus: a prefix, the base unit at the end, and
//! `_total` for counters.

use headworks_policy::Nanos;
use headworks_policy::histogram::{BUCKETS, bounds};
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::fmt::Error;

/// Writes the families of metrics one after the other.
pub(super) struct Out<'a>(pub DescriptorEncoder<'a>);

pub(super) type Labels<'a> = Vec<(&'a str, &'a str)>;

impl Out<'_> {
    fn family<L: EncodeLabelSet, V>(
        &mut self,
        (name, help, unit, kind): (&str, &str, Option<&Unit>, MetricType),
        values: impl IntoIterator<Item = (L, V)>,
        write: impl Fn(MetricEncoder<'_>, V) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let name = format!("headworks_{name}");
        let mut metric = self.0.encode_descriptor(&name, help, unit, kind)?;
        for (labels, value) in values {
            write(metric.encode_family(&labels)?, value)?;
        }
        Ok(())
    }

    pub(super) fn gauge<'a>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'a>, f64)>,
    ) -> Result<(), Error> {
        self.family((name, help, None, MetricType::Gauge), values, |mut metric, value: f64| {
            metric.encode_gauge(&value)
        })
    }

    pub(super) fn counter<'a>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'a>, u64)>,
    ) -> Result<(), Error> {
        self.family((name, help, None, MetricType::Counter), values, |mut metric, value: u64| {
            metric.encode_counter::<Labels<'_>, u64, u64>(&value, None)
        })
    }

    /// A counter of nanoseconds, in seconds.
    pub(super) fn seconds<'a>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'a>, u64)>,
    ) -> Result<(), Error> {
        let descriptor = (name, help, Some(&Unit::Seconds), MetricType::Counter);
        self.family(descriptor, values, |mut metric, ns: u64| {
            metric.encode_counter::<Labels<'_>, f64, u64>(&(ns as f64 * 1e-9), None)
        })
    }

    /// A counter of bytes.
    pub(super) fn bytes<'a>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'a>, u64)>,
    ) -> Result<(), Error> {
        let descriptor = (name, help, Some(&Unit::Bytes), MetricType::Counter);
        self.family(descriptor, values, |mut metric, value: u64| {
            metric.encode_counter::<Labels<'_>, u64, u64>(&value, None)
        })
    }

    pub(super) fn histogram<'a>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'a>, Nanos, &'a [u64; BUCKETS])>,
    ) -> Result<(), Error> {
        let values = values.into_iter().map(|(labels, sum, counts)| (labels, (sum, counts)));
        let descriptor = (name, help, Some(&Unit::Seconds), MetricType::Histogram);
        self.family(descriptor, values, |mut metric, (sum, counts): (Nanos, &[u64; BUCKETS])| {
            let count = counts.iter().sum();
            let seconds = sum.0 as f64 * 1e-9;
            metric.encode_histogram::<Labels<'_>>(seconds, count, &octaves(counts), None)
        })
    }
}

/// Counts by octave of time, each with its upper bound in seconds. `status` has finer figures.
fn octaves(counts: &[u64; BUCKETS]) -> Vec<(f64, u64)> {
    let mut octaves = Vec::new();
    let mut sum = 0;
    for (bucket, count) in counts.iter().enumerate() {
        sum += count;
        let last_of_octave = bucket % 8 == 0;
        if bucket == BUCKETS - 1 {
            octaves.push((f64::INFINITY, sum));
        } else if last_of_octave {
            octaves.push((bounds(bucket).1.0 as f64 * 1e-9, sum));
            sum = 0;
        }
    }
    octaves
}
