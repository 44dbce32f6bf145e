//! What a device model says of a closed loop at depth 1, in simulated time. Prints JSON.
//!
//! `model_latency DEVICE read|write BYTES THINK_US`: random requests over 512 MiB, each submitted
//! THINK_US microseconds after the one before it was answered, as `scripts/bench-jitter` does in
//! real time.

use headworks_policy::Nanos;
use headworks_policy::block::{Noop, Operation, SECTOR_BYTES};
use headworks_volume::model::Device;
use headworks_volume::sim::{Job, run};

const SIZE: u64 = 512 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [device, operation, bytes, think_us] = &words[..] else {
        return Err("usage: model_latency DEVICE read|write BYTES THINK_US".into());
    };
    let Some(device) = Device::preset(device) else {
        return Err(format!("there is no device {device}").into());
    };
    let operation = match operation.as_str() {
        "read" => Operation::Read,
        "write" => Operation::Write,
        other => return Err(format!("{other} is neither read nor write").into()),
    };
    let job = Job {
        block_bytes: bytes.parse()?,
        think: Nanos::from_micros(think_us.parse()?),
        ..Job::random(operation, 1, SIZE / SECTOR_BYTES)
    };
    let mut model = device.model(SIZE, 1);
    let mut noop = Box::new(Noop::default());
    let (warm_up, time) = (Nanos::from_millis(500), Nanos::from_millis(20_000));
    let outcome = run(noop.as_mut(), model.as_mut(), &[job], warm_up, time, 1).swap_remove(0);
    // Latencies are below a second: exact as f64.
    let us = |part| outcome.latency(part).0 as f64 / 1e3;
    println!("{{\"p50_us\": {:.1}, \"p99_us\": {:.1}}}", us(0.5), us(0.99));
    Ok(())
}
