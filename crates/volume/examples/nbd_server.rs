//! Serves volumes in memory over NBD, for tests and measurements, until its standard input ends.
//!
//! `nbd_server unix:PATH|tcp:ADDRESS NAME=MEBIBYTES[:ro] …`; the first export is the default.
//! Prints `ready ADDRESS` when clients may come, and what is in flight at its end.

use std::io::Read;
use std::sync::Arc;

use headworks_volume::nbd::{Backend, Export, Exports, Limits, Listener, Stop, serve};
use headworks_volume::store::Memory;
use headworks_volume::{Engine, EngineConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: nbd_server unix:PATH|tcp:ADDRESS NAME=MEBIBYTES[:ro] …";
    let mut arguments = std::env::args().skip(1);
    let place = arguments.next().ok_or(usage)?;
    let mut exports = Vec::new();
    for argument in arguments {
        let (name, rest) = argument.split_once('=').ok_or(usage)?;
        let (size, mode) = rest.split_once(':').unwrap_or((rest, ""));
        let size_bytes = size.parse::<u64>()? << 20;
        let store = Arc::new(Memory::new(size_bytes, size_bytes));
        let engine = Arc::new(Engine::start(EngineConfig::raw(store))?);
        let volume: Arc<dyn Backend> = Arc::new(engine);
        exports.push(Export::new(name, volume).read_only(mode == "ro").fast_zeroes(true));
    }
    let exports = Exports::new(exports)?;
    let listener = match place.split_once(':') {
        Some(("unix", path)) => Listener::unix(path)?,
        Some(("tcp", address)) => Listener::tcp(address)?,
        _ => return Err(usage.into()),
    };
    match listener.address() {
        Some(address) => println!("ready {address}"),
        None => println!("ready {place}"),
    }
    let stop = Stop::new()?;
    let stopper = stop.clone();
    std::thread::spawn(move || {
        // The process that started this closes it, or dies.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stopper.stop();
    });
    serve(listener, exports, Limits::default(), &stop)?;
    let counts = stop.counts();
    println!("over: {} connections, {} requests", counts.connections, counts.requests);
    Ok(())
}
