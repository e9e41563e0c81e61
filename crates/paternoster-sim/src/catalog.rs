// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalog: the device files that come with the program, by name.

use crate::description::{Description, DeviceFileError};

/// `devices/array-eva.toml`, for experiments that change a line of it.
pub const ARRAY_EVA: &str = include_str!("../devices/array-eva.toml");
/// `devices/hdd-7200.toml`, for experiments that change a line of it.
pub const HDD_7200: &str = include_str!("../devices/hdd-7200.toml");
/// `devices/hdd-mhx2300bt.toml`, for experiments that change a line of it.
pub const HDD_MHX2300BT: &str = include_str!("../devices/hdd-mhx2300bt.toml");
/// `devices/ssd-870evo.toml`, for experiments that change a line of it.
pub const SSD_870EVO: &str = include_str!("../devices/ssd-870evo.toml");

/// Name and text of each device file in `devices/`.
pub const FILES: &[(&str, &str)] = &[
    ("array-eva", ARRAY_EVA),
    ("flash-card-2010", include_str!("../devices/flash-card-2010.toml")),
    ("hdd-7200", HDD_7200),
    ("hdd-7200-enterprise", include_str!("../devices/hdd-7200-enterprise.toml")),
    ("hdd-7200-no-ncq", include_str!("../devices/hdd-7200-no-ncq.toml")),
    ("hdd-mhx2300bt", HDD_MHX2300BT),
    ("lab-disk", include_str!("../devices/lab-disk.toml")),
    ("lab-flash", include_str!("../devices/lab-flash.toml")),
    ("null", include_str!("../devices/null.toml")),
    ("nvme-7300", include_str!("../devices/nvme-7300.toml")),
    ("nvme-9100", include_str!("../devices/nvme-9100.toml")),
    ("nvme-kc3000", include_str!("../devices/nvme-kc3000.toml")),
    ("nvme-pm9a3", include_str!("../devices/nvme-pm9a3.toml")),
    ("raid0-4-hdd", include_str!("../devices/raid0-4-hdd.toml")),
    ("ssd-870evo", SSD_870EVO),
    ("ssd-870evo-aged", include_str!("../devices/ssd-870evo-aged.toml")),
    ("ssd-870qvo", include_str!("../devices/ssd-870qvo.toml")),
    ("ssd-pm883", include_str!("../devices/ssd-pm883.toml")),
    ("ssd-s4500", include_str!("../devices/ssd-s4500.toml")),
    ("ssd-px256m5s", include_str!("../devices/ssd-px256m5s.toml")),
    ("ssd-px256m5s-gc", include_str!("../devices/ssd-px256m5s-gc.toml")),
];

/// The device of this name, if there is one.
///
/// # Errors [`DeviceFileError`] if its file is wrong; a test makes sure that none is.
pub fn by_name(name: &str) -> Option<Result<Description, DeviceFileError>> {
    let (name, text) = FILES.iter().find(|(known, _)| *known == name)?;
    Some(Description::parse(&format!("devices/{name}.toml"), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does every file in the catalog parse, under the name by which it is chosen; and is every
    /// file in it?
    #[test]
    fn every_device_file_is_sound() {
        for (name, _) in FILES {
            let device = by_name(name).unwrap().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(device.name, *name);
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../devices");
        let count = std::fs::read_dir(folder).unwrap().count();
        assert_eq!(count, FILES.len(), "a file in devices/ is not in the catalog");
    }
}
