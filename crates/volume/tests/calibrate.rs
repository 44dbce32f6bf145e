//! From measurements of a device to a model that measures the same.

use headworks_volume::model::Device;
use headworks_volume::model::calibrate::{CalibrateError, Mixed, Probes, fit};

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
