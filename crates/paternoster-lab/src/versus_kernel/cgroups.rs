// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cgroups: a folder for each group of a job, with its weight for bfq.
//!
//! ```text
//! v1   /sys/fs/cgroup/blkio/paternoster-PID-NAME   blkio.bfq.weight
//! v2   /sys/fs/cgroup/paternoster-PID-NAME         io.bfq.weight, if `io` is there for children
//! ```
//!
//! The version 1 controller is used where it exists, because then version 2 has none.

use std::fs;
use std::path::{Path, PathBuf};

use super::split::{Group, Part};
use super::undo::{Undo, read};

/// bfq takes weights up to this one.
const WEIGHT_MOST: u32 = 1000;

/// Where cgroups are made, and which file takes the weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    folder: PathBuf,
    weight: &'static str,
    /// Children must be given the controller first.
    delegates: bool,
}

impl Hierarchy {
    /// The hierarchy of the block controller on this machine.
    pub(super) fn find() -> Result<Hierarchy, String> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        hierarchy(&mounts, &|folder| {
            let text = fs::read_to_string(folder.join("cgroup.controllers"));
            text.is_ok_and(|text| text.split_whitespace().any(|word| word == "io"))
        })
        .ok_or_else(|| {
            "weights need the cgroup controller blkio (version 1) or io (version 2), and neither \
             is mounted"
                .to_owned()
        })
    }

    /// Makes a folder for each group of these parts; returns the folder of each part.
    pub(super) fn make(
        &self,
        parts: Vec<Part>,
        undo: &mut Undo,
    ) -> Result<Vec<(Part, Option<PathBuf>)>, String> {
        let mut made = Vec::new();
        for part in parts {
            let folder = part.group.as_ref().map(|group| self.make_one(group, undo)).transpose()?;
            made.push((part, folder));
        }
        Ok(made)
    }

    fn make_one(&self, group: &Group, undo: &mut Undo) -> Result<PathBuf, String> {
        let Group { name, weight } = group;
        if !(1..=WEIGHT_MOST).contains(weight) {
            return Err(format!("cgroup_weight={weight} of {name}: bfq takes 1 to {WEIGHT_MOST}"));
        }
        if self.delegates {
            self.delegate(undo)?;
        }
        let folder = self.folder.join(format!("paternoster-{}-{name}", std::process::id()));
        undo.folder(&folder, false)?;
        let file = folder.join(self.weight);
        if !file.exists() {
            return Err(format!(
                "{}: there is no such file: this kernel's bfq knows no weights of cgroups",
                file.display()
            ));
        }
        fs::write(&file, weight.to_string())
            .map_err(|error| format!("{weight} into {}: {error}", file.display()))?;
        Ok(folder)
    }

    /// Gives the controller to children that lack it.
    fn delegate(&self, undo: &mut Undo) -> Result<(), String> {
        let file = self.folder.join("cgroup.subtree_control");
        if read(&file)?.split_whitespace().any(|word| word == "io") {
            return Ok(());
        }
        undo.set_and(&file, "+io", vec!["-io".to_owned()])
    }
}

/// The hierarchy in these mounts; `has_io` says whether a version 2 one has the controller.
fn hierarchy(mounts: &str, has_io: &dyn Fn(&Path) -> bool) -> Option<Hierarchy> {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let fields: Vec<Vec<&str>> = fields.filter(|fields| fields.len() > 3).collect();
    let of = |kind: &'static str| fields.iter().filter(move |fields| fields[2] == kind);
    let v1 = of("cgroup").find(|fields| fields[3].split(',').any(|option| option == "blkio"));
    if let Some(fields) = v1 {
        let folder = PathBuf::from(fields[1]);
        return Some(Hierarchy { folder, weight: "blkio.bfq.weight", delegates: false });
    }
    let mut v2 = of("cgroup2").map(|fields| PathBuf::from(fields[1]));
    let folder = v2.find(|folder| has_io(folder))?;
    Some(Hierarchy { folder, weight: "io.bfq.weight", delegates: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
                      cgroup /sys/fs/cgroup/blkio cgroup rw,relatime,blkio 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
    const V2: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw,relatime 0 0\n";

    /// Is version 1 found where it is, version 2 if it has the controller, and otherwise nothing?
    #[test]
    fn hierarchies_are_found() {
        let found = hierarchy(V1, &|_| true).unwrap();
        assert_eq!(found.folder, Path::new("/sys/fs/cgroup/blkio"));
        assert_eq!((found.weight, found.delegates), ("blkio.bfq.weight", false));
        let found = hierarchy(V2, &|_| true).unwrap();
        assert_eq!((found.weight, found.delegates), ("io.bfq.weight", true));
        assert_eq!(found.folder, Path::new("/sys/fs/cgroup"));
        assert_eq!(hierarchy(V2, &|_| false), None);
        assert_eq!(hierarchy("", &|_| true), None);
    }

    /// Is a folder made, given its weight, and gone at the end? And is a weight that bfq would not
    /// take refused before anything is made?
    #[test]
    fn groups_come_and_go() {
        let name = format!("paternoster-cgroups-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let hierarchy = Hierarchy { folder: folder.clone(), weight: "weight", delegates: false };
        let mut undo = Undo::new();
        let group = |weight| Group { name: "a".to_owned(), weight };
        let wrong = hierarchy.make_one(&group(0), &mut undo).unwrap_err();
        assert!(wrong.contains("bfq takes 1 to 1000"), "{wrong}");
        // A plain folder has no file for the weight; the kernel's would.
        let wrong = hierarchy.make_one(&group(200), &mut undo).unwrap_err();
        assert!(wrong.contains("knows no weights"), "{wrong}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(undo.all().is_empty());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir(&folder).unwrap();
    }
}
