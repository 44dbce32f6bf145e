//! Says where the log of a database is damaged and, with `--pass-over`, passes over it:
//! `cargo run -p headworks-engine --example repair -- DIRECTORY_OF_THE_LOG [--pass-over]`.

use headworks_engine::{EngineError, FileLog, examine_log, repair_log};

fn main() -> Result<(), EngineError> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = arguments.iter().position(|it| it == "--pass-over");
    let passes_over = asked.map(|at| arguments.remove(at)).is_some();
    let [directory] = &arguments[..] else {
        eprintln!("usage: repair DIRECTORY_OF_THE_LOG [--pass-over]");
        std::process::exit(2);
    };
    let log = FileLog::open(directory.as_ref(), FileLog::SEGMENT_BYTES)?;
    let damage = if passes_over { repair_log(&log)? } else { examine_log(&log)? };
    for it in &damage {
        println!("{it}");
    }
    match (damage.is_empty(), passes_over) {
        (true, _) => println!("The log is not damaged."),
        (false, true) => println!(
            "The log passes over that now. Open the database, and see its recovery report."
        ),
        (false, false) => println!(
            "What those bytes said would be lost: at most the changes of that many bytes of log. The whole records \
             after them are kept. Pages whose changes were among them may be out of service afterwards. Copy the \
             directory, then add --pass-over."
        ),
    }
    Ok(())
}
