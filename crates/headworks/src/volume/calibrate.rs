//! `volume calibrate`: a device file from measurements of a real device.

use super::show::bytes;
use super::system::{self, Contents};
use crate::cli;
use anyhow::{Context, Result, bail};
use headworks_volume::model::calibrate::{Probes, fit};
use headworks_volume::probe::{self, Plan, Target};
use headworks_volume::store::{File, Store};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write, stderr};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The store that is measured, without the page cache.
struct Opened {
    store: File,
    /// Deleted at the end, however the measurement ends.
    made: Option<PathBuf>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(path) = &self.made {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Target for Opened {
    fn size_bytes(&self) -> u64 {
        self.store.size_bytes()
    }
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.store.read(offset, into)
    }
    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        self.store.write(offset, from, false)
    }
    fn flush(&self) -> io::Result<()> {
        self.store.flush()
    }
}

/// Measures, fits, and writes the device file.
pub fn calibrate(args: &cli::Calibrate) -> Result<()> {
    let out = args.out.as_deref();
    if let Some(out) = out.filter(|out| out.exists()) {
        bail!("{0} exists already: choose another --out, or remove it: rm {0}", out.display());
    }
    let target = open(args)?;
    if !target.store.is_direct() {
        bail!(
            "{} cannot be read past the page cache (O_DIRECT), so its device cannot be seen\n  \
             choose a place on ext4, XFS or a device itself",
            args.target.display()
        );
    }
    let plan = plan(args, &target)?;
    let measured = measure(&target, &plan)
        .with_context(|| format!("the measurement of {} failed", args.target.display()))?;
    drop(target);
    let device = fit(&measured)?;
    let fitted = Probes::of(&device, plan.block_bytes, plan.depth);
    let about = format!("{}, calibrated", args.target.display());
    let toml = device.to_toml(&about).context("a fit always has a file")?;
    if let Some(out) = out {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(out)
            .and_then(|mut file| file.write_all(toml.as_bytes()))
            .with_context(|| format!("cannot write {}", out.display()))?;
    }
    let rows = rows(&measured, &fitted);
    if args.json {
        let figures = |pick: fn(&Row) -> f64| -> serde_json::Map<String, serde_json::Value> {
            rows.iter().map(|row| (row.key.to_owned(), pick(row).into())).collect()
        };
        println!(
            "{}",
            serde_json::json!({
                "target": args.target,
                "measured": figures(|row| row.measured),
                "fitted": figures(|row| row.fitted),
                "device_toml": toml,
            })
        );
        return Ok(());
    }
    println!("{:34} {:>12} {:>12}  {:>7}", "", "measured", "fitted", "off");
    for row in &rows {
        let off = 100.0 * (row.fitted / row.measured - 1.0);
        println!("{:34} {:>12.1} {:>12.1} {off:>6.1} %", row.label, row.measured, row.fitted);
    }
    match out {
        Some(out) => println!(
            "written: {0}\n  use it: headworks volume create NAME --size 10G --backing FILE --device {0}",
            out.display()
        ),
        None => println!("\n{toml}"),
    }
    Ok(())
}

/// A file of ours in a directory, or one that the user lets us overwrite.
fn open(args: &cli::Calibrate) -> Result<Opened> {
    let path = &args.target;
    let meta = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return make(path, args.size),
        other => {
            other.with_context(|| format!("cannot read the attributes of {}", path.display()))?
        }
    };
    if meta.is_dir() {
        let name = format!(".headworks-calibrate-{}", std::process::id());
        return make(&path.join(name), args.size);
    }
    if meta.file_type().is_block_device() {
        let target = std::fs::canonicalize(path)?;
        let mounts = system::mounts();
        if let Some(mounted) = mounts.iter().find(|mounted| mounted.source == target) {
            bail!(
                "{0} is mounted on {1}: measuring writes would destroy it\n  measure in a file of \
                 its own instead: headworks volume calibrate {1}",
                path.display(),
                mounted.dir.display()
            );
        }
        if !args.destroy {
            let holds = match system::contents(path)? {
                Contents::Empty => "its beginning is empty, the rest may not be".to_owned(),
                Contents::FileSystem(kind) => format!("it holds {}", kind.name()),
                Contents::Other => "it holds something".to_owned(),
            };
            bail!(
                "measuring {} overwrites it, and {holds}\n  if that is meant: --destroy",
                path.display()
            );
        }
    } else if meta.size() > 0 && !args.destroy {
        bail!(
            "measuring {0} overwrites its {1}\n  if that is meant: --destroy; else name a directory, \
             and a file is made there and removed again",
            path.display(),
            bytes(meta.size())
        );
    }
    let size = if meta.is_file() { meta.size() } else { device_size(path)? };
    if size < 16 << 20 {
        bail!("{} has {}, and 16 MiB are the least", path.display(), bytes(size));
    }
    // A whole number of sectors of any size.
    Ok(Opened { store: File::open(path, size / 4096 * 4096)?, made: None })
}

fn device_size(path: &Path) -> Result<u64> {
    let opened = std::fs::File::open(path).and_then(|mut file| {
        use std::io::{Seek, SeekFrom};
        file.seek(SeekFrom::End(0))
    });
    opened.with_context(|| {
        format!("cannot open {}\n  is it a device for you? run as root", path.display())
    })
}

fn make(path: &Path, size: u64) -> Result<Opened> {
    let file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).with_context(
            || format!("cannot make {}\n  is its directory there, and yours?", path.display()),
        )?;
    let made = Some(path.to_owned());
    let sized = file.set_len(size).context("it cannot be that long: choose a smaller --size");
    let opened = sized.and_then(|()| Ok(File::open(path, size)?));
    match opened {
        Ok(store) => Ok(Opened { store, made }),
        Err(error) => {
            let _ = std::fs::remove_file(path);
            Err(error).with_context(|| format!("cannot measure in {}", path.display()))
        }
    }
}

fn plan(args: &cli::Calibrate, target: &Opened) -> Result<Plan> {
    let rotational = match args.kind {
        Some(kind) => kind == cli::DeviceKind::Hdd,
        None => is_rotational(target.made.as_deref().unwrap_or(&args.target)),
    };
    if rotational && target.made.is_some() {
        bail!(
            "{} lies on a disk, whose seeks need all of it: name the device itself, with --destroy\n  \
             if it is no disk: --kind ssd",
            args.target.display()
        );
    }
    Ok(Plan {
        span: Duration::from_secs_f64(args.seconds),
        queue_depth: args.queue_depth,
        rpm: args.rpm,
        rotational,
        ..Plan::default()
    })
}

/// Whether the kernel calls the device under a path rotational; false if it does not tell.
fn is_rotational(path: &Path) -> bool {
    let Ok(meta) = std::fs::metadata(path) else { return false };
    let device = if meta.file_type().is_block_device() { meta.rdev() } else { meta.dev() };
    let place = format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device));
    // A partition's queue is its parent's.
    ["queue/rotational", "../queue/rotational"]
        .iter()
        .find_map(|file| std::fs::read_to_string(Path::new(&place).join(file)).ok())
        .is_some_and(|text| text.trim() == "1")
}

/// Measures, with a progress bar.
fn measure(target: &Opened, plan: &Plan) -> io::Result<Probes> {
    let steps = probe::steps(plan);
    let ends: Vec<f64> = steps
        .iter()
        .scan(0.0, |sum, (_, spans)| {
            *sum += spans * plan.span.as_secs_f64();
            Some(*sum)
        })
        .collect();
    let whole = ends.last().copied().unwrap_or(0.0);
    if !stderr().is_terminal() {
        eprintln!("measuring for about {whole:.0} s");
        return probe::measure(target, plan, |_| {});
    }
    let style = ProgressStyle::with_template("{bar:30.blue} {msg} ({eta} left)")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    // Milliseconds; a plan has minutes at most.
    let bar = ProgressBar::new((whole * 1e3) as u64).with_style(style);
    let (sender, receiver) = channel::<usize>();
    std::thread::scope(|scope| {
        let (bar, steps, ends) = (&bar, &steps, &ends);
        scope.spawn(move || {
            let (mut step, mut began) = (0, Instant::now());
            loop {
                match receiver.recv_timeout(Duration::from_millis(120)) {
                    Ok(next) => (step, began) = (next, Instant::now()),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                let start = if step == 0 { 0.0 } else { ends[step - 1] };
                let at = (start + began.elapsed().as_secs_f64()).min(ends[step]);
                bar.set_message(steps[step].0);
                bar.set_position((at * 1e3) as u64);
            }
        });
        let measured = probe::measure(target, plan, |step| {
            // Only the progress bar depends on it.
            let _ = sender.send(step);
        });
        drop(sender);
        bar.finish_and_clear();
        measured
    })
}

struct Row {
    key: &'static str,
    label: String,
    measured: f64,
    fitted: f64,
}

fn rows(measured: &Probes, fitted: &Probes) -> Vec<Row> {
    let block = measured.block_bytes >> 10;
    let depth = measured.depth;
    let row = |key, label: String, of: fn(&Probes) -> f64| Row {
        key,
        label,
        measured: of(measured),
        fitted: of(fitted),
    };
    let mut rows = vec![
        row("read_us", format!("random read of {block} KiB, µs"), |p| p.read_us),
        row("read_iops", format!("random reads a second, depth {depth}"), |p| p.read_iops),
        row("write_us", format!("random write of {block} KiB, µs"), |p| p.write_us),
        row("write_iops", format!("random writes a second, depth {depth}"), |p| p.write_iops),
        row("flush_us", "flush after a write, µs".to_owned(), |p| p.flush_us),
        row("sequential_read_mb_per_s", "sequential reads, MB/s".to_owned(), |p| {
            p.sequential_read_mb_per_s
        }),
        row("sequential_write_mb_per_s", "sequential writes, MB/s".to_owned(), |p| {
            p.sequential_write_mb_per_s
        }),
    ];
    for ((distance, took), (_, again)) in measured.seeks.iter().zip(&fitted.seeks) {
        let label = format!("access over {:.1} % of the span, ms", 100.0 * distance);
        rows.push(Row { key: "access_ms", label, measured: *took, fitted: *again });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_volume::model::Device;

    #[test]
    fn rows_put_the_measured_beside_the_fitted() {
        let preset = Device::preset("ssd-c").unwrap();
        let probes = Probes::of(&preset, 16_384, 32);
        let other = Probes { read_iops: 2.0 * probes.read_iops, ..probes.clone() };
        let rows = rows(&other, &probes);
        let row = rows.iter().find(|row| row.key == "read_iops").unwrap();
        assert!((row.measured / row.fitted - 2.0).abs() < 1e-9 && row.label.contains("depth 32"));
        assert_eq!(rows.len(), 7);
    }
}
