//! What the engine itself costs, and how exactly it keeps a model's time. Prints JSON.
//!
//! `engine_timing [SECONDS]`: random reads of 4 KiB from memory without a queue; the same through a
//! queue with the raw device; and reads of 16 KiB at depth 1 against each device model, with the
//! difference between the time that the model named and the answer.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headworks_policy::Nanos;
use headworks_policy::block::{Noop, Operation, Request};
use headworks_volume::model::{Device, Model, PRESETS};
use headworks_volume::store::Memory;
use headworks_volume::{Buffer, Engine, EngineConfig, Submission};

const SIZE: u64 = 256 << 20;

/// A model that tells how long its last command takes.
struct Told {
    model: Box<dyn Model>,
    last: Arc<Mutex<Nanos>>,
}

impl Model for Told {
    fn depth(&self) -> u32 {
        self.model.depth()
    }

    fn start(&mut self, now: Nanos, command: &Request) -> Nanos {
        let due = self.model.start(now, command);
        if let Ok(mut last) = self.last.lock() {
            *last = due.since(now);
        }
        due
    }
}

/// Pseudo-random offsets of blocks.
fn offset(number: u64, block: u64) -> u64 {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % (SIZE / block) * block
}

fn read(engine: &Engine, number: u64, len: u32) {
    let at = offset(number, u64::from(len));
    if engine.call(|done| Submission::new(Operation::Read, at, len.into(), done)).is_err() {
        panic!("memory cannot be read");
    }
}

fn per_second(span: Duration, mut one: impl FnMut(u64)) -> f64 {
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < span {
        for _ in 0..64 {
            one(count);
            count += 1;
        }
    }
    count as f64 / began.elapsed().as_secs_f64()
}

fn filled() -> Arc<Memory> {
    let memory = Arc::new(Memory::new(SIZE, SIZE));
    for at in (0..SIZE).step_by(1 << 20) {
        let block = vec![1; 1 << 20];
        if headworks_volume::store::Store::write(&*memory, at, &block, false).is_err() {
            panic!("memory cannot be written");
        }
    }
    memory
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds: f64 = std::env::args().nth(1).map_or(Ok(2.0), |text| text.parse())?;
    let span = Duration::from_secs_f64(seconds);
    let memory = filled();

    let direct = Engine::start(EngineConfig::raw(memory.clone()))?;
    let mut buffer = Buffer::new(4096);
    let now = per_second(span, |number| {
        let _ = direct.read_now(offset(number, 4096), &mut buffer);
    });
    let submitted = per_second(span, |number| read(&direct, number, 4096));
    println!("{{\"read_now_per_s\": {now:.0}, \"submit_per_s\": {submitted:.0},");

    let config = EngineConfig {
        scheduler: Some(Box::new(Noop::default())),
        ..EngineConfig::raw(memory.clone())
    };
    let queued = Engine::start(config)?;
    let queue = per_second(span, |number| read(&queued, number, 4096));
    println!(" \"queued_per_s\": {queue:.0}, \"depth_1\": {{");

    for (at, (name, _)) in PRESETS.iter().enumerate() {
        let Some(device) = Device::preset(name) else { continue };
        let last = Arc::new(Mutex::new(Nanos(0)));
        let told = Told { model: device.model(SIZE, 1), last: Arc::clone(&last) };
        let config =
            EngineConfig { model: Some(Box::new(told)), ..EngineConfig::raw(memory.clone()) };
        let engine = Engine::start(config)?;
        let mut late_us = Vec::new();
        per_second(span, |number| {
            let began = Instant::now();
            read(&engine, number, 16_384);
            let took = began.elapsed();
            let named = last.lock().map_or(Nanos(0), |last| *last);
            late_us.push((took.as_nanos() as f64 - named.0 as f64) / 1e3);
        });
        late_us.sort_by(f64::total_cmp);
        let quantile = |share: f64| late_us[((late_us.len() - 1) as f64 * share) as usize];
        println!(
            "  \"{name}\": {{\"reads\": {}, \"late_us_p50\": {:.1}, \"late_us_p99\": {:.1}}}{}",
            late_us.len(),
            quantile(0.5),
            quantile(0.99),
            if at + 1 < PRESETS.len() { "," } else { "" }
        );
    }
    println!("}}}}");
    Ok(())
}
