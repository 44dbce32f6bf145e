//! From measurements of a device to a model that measures the same.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use headworks_policy::block::Operation;
use headworks_volume::model::Device;
use headworks_volume::model::calibrate::{CalibrateError, Mixed, Probes, fit};

use headworks_volume::probe::{Plan, Target, measure, steps};
use headworks_volume::store::Memory;
use headworks_volume::{Buffer, Engine, EngineConfig, Submission};

fn near(name: &str, what: &str, found: f64, goal: f64, tolerance: f64) {
    println!("{name} {what}: {found:.1} for {goal:.1}");
    assert!((found / goal - 1.0).abs() <= tolerance, "{name} {what}: {found:.1} for {goal:.1}");
}

#[test]
fn a_fit_to_the_probes_of_a_preset_measures_as_the_preset_does() {
    for name in ["ssd-a", "ssd-b", "ssd-c", "ssd-d", "hdd"] {
        let probes = Probes::of(&Device::preset(name).unwrap(), 16_384, 32);
        let device = fit(&probes).unwrap();
        let text = device.to_toml("calibrated").unwrap();
        let device = Device::from_toml(&text, name).expect("a fit is a valid file");
        let again = Probes::of(&device, 16_384, 32);
        near(name, "reads at depth 32", again.read_iops, probes.read_iops, 0.05);
        near(name, "writes at depth 32", again.write_iops, probes.write_iops, 0.05);
        near(name, "read, µs", again.read_us, probes.read_us, 0.05);
        near(name, "write, µs", again.write_us, probes.write_us, 0.05);
        let (found, goal) = (again.sequential_read_mb_per_s, probes.sequential_read_mb_per_s);
        near(name, "sequential read", found, goal, 0.05);
        if name != "hdd" {
            let (found, goal) = (again.sequential_write_mb_per_s, probes.sequential_write_mb_per_s);
            near(name, "sequential write", found, goal, 0.05);
            near(name, "flush, µs", again.flush_us, probes.flush_us, 0.25);
        }
        for ((distance, found), (_, goal)) in again.seeks.iter().zip(&probes.seeks) {
            near(name, &format!("access at {distance}, ms"), *found, *goal, 0.05);
        }
    }
}

#[test]
fn a_mixed_load_tells_how_long_a_program_takes() {
    let probes = Probes::of(&Device::preset("ssd-a").unwrap(), 16_384, 32);
    let without = fit(&probes).unwrap();
    let Device::Ssd(without) = without else { panic!("a drive") };
    let mixed = Some(Mixed { reads_percent: 66, iops: 43_464.0 });
    let Device::Ssd(with) = fit(&Probes { mixed, ..probes }).unwrap() else { panic!("a drive") };
    assert!(with.program_us > 3.0 * without.program_us, "{} µs", with.program_us);
    let Some(Device::Ssd(preset)) = Device::preset("ssd-a") else { panic!("a drive") };
    assert!(with.ways.abs_diff(preset.ways) <= 2, "{} ways", with.ways);
}

#[test]
fn measurements_that_make_no_device_are_refused() {
    let good = Probes::of(&Device::preset("hdd").unwrap(), 16_384, 32);
    let refused = |probes: Probes| fit(&probes).unwrap_err();
    let zero = refused(Probes { read_iops: 0.0, ..good.clone() });
    assert_eq!(zero, CalibrateError::NotPositive("read_iops", 0.0));
    let nothing = refused(Probes { write_us: f64::NAN, ..good.clone() });
    assert!(nothing.to_string().contains("write_us"), "{nothing}");
    assert_eq!(refused(Probes { depth: 2, ..good.clone() }), CalibrateError::Shallow(2));
    let twice = vec![good.seeks[0], good.seeks[0], good.seeks[1]];
    assert_eq!(refused(Probes { seeks: twice, ..good }), CalibrateError::FewSeeks(2));
}

const MIB: u64 = 1 << 20;

/// An engine as a device to be measured.
struct Behind(Engine);

impl Target for Behind {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        // Requests of probes are a megabyte at most.
        let len = into.len() as u64;
        let data = self.0.call(|done| Submission::new(Operation::Read, offset, len, done))?;
        into.copy_from_slice(&data);
        Ok(())
    }
    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        let data = Buffer::copy_of(from);
        self.0.call(|done| Submission::write(offset, data, done)).map(drop)
    }
    fn flush(&self) -> io::Result<()> {
        self.0.call(|done| Submission::new(Operation::Flush, 0, 0, done)).map(drop)
    }
}

/// SSD-C in real time, measured as a real device is, and fitted: the fit measures as the device
/// did. What this machine adds makes a device slower, never faster: 5 % above its model are
/// allowed, 15 % for writes, which vary.
#[test]
fn a_modelled_drive_is_measured_and_found_again() {
    let device = Device::preset("ssd-c").unwrap();
    let goal = Probes::of(&device, 16_384, 32);
    let store = Arc::new(Memory::new(256 * MIB, 256 * MIB));
    let model = Some(device.model(256 * MIB, 1));
    let engine = Engine::start(EngineConfig { model, ..EngineConfig::raw(store) }).unwrap();
    let plan = Plan { span: Duration::from_millis(400), ..Plan::default() };
    let mut told = Vec::new();
    let measured = measure(&Behind(engine), &plan, |step| told.push(step)).unwrap();
    assert_eq!(told, (0..steps(&plan).len()).collect::<Vec<_>>());
    println!("{measured:#?}");
    let fitted = Probes::of(&fit(&measured).unwrap(), 16_384, 32);
    let check = |what: &str, found: f64, measured: f64, fastest: f64| {
        println!("{what}: {found:.1} for {measured:.1}, at most {fastest:.1}");
        let ratio = found / measured;
        assert!((0.6..=1.5).contains(&ratio), "{what}: {found:.1} for {measured:.1}");
        assert!(found <= fastest, "{what}: {found:.1}, at most {fastest:.1}");
    };
    check("reads at depth 32", fitted.read_iops, measured.read_iops, 1.05 * goal.read_iops);
    check("writes at depth 32", fitted.write_iops, measured.write_iops, 1.15 * goal.write_iops);
    check("reads, one by one", 1e6 / fitted.read_us, 1e6 / measured.read_us, 1.05e6 / goal.read_us);
    let (found, was) = (fitted.sequential_read_mb_per_s, measured.sequential_read_mb_per_s);
    check("sequential reads", found, was, 1.05 * goal.sequential_read_mb_per_s);
    let (found, was) = (fitted.sequential_write_mb_per_s, measured.sequential_write_mb_per_s);
    check("sequential writes", found, was, 1.15 * goal.sequential_write_mb_per_s);
}

/// The first error ends it, and is the one that is told.
#[test]
fn a_device_that_fails_is_not_measured() {
    struct Broken;
    impl Target for Broken {
        fn size_bytes(&self) -> u64 {
            64 * MIB
        }
        fn read(&self, _offset: u64, _into: &mut [u8]) -> io::Result<()> {
            Err(io::Error::from_raw_os_error(libc::EIO))
        }
        fn write(&self, _offset: u64, _from: &[u8]) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }
    let plan = Plan { span: Duration::from_millis(20), ..Plan::default() };
    let error = measure(&Broken, &plan, |_| ()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
}
