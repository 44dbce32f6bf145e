use super::*;
use crate::systems;

#[test]
fn the_systems_that_come_with_headworks_are_read_without_a_warning() {
    for name in systems::names() {
        let loaded = read_tad(name, systems::text(name).unwrap());
        let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(loaded.value.name, name);
        let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
        assert!(warnings.is_empty(), "{}", warnings.join("\n"));
    }
}
