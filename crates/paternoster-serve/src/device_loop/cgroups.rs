// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cgroups: the groups of processes, as nodes of the tenants' tree.
//!
//! ```text
//! root ─┬─ /batch 100 ─┬─ /batch/a 200 ── a process
//!       │              └─ /batch/b 100 ── processes
//!       └─ tenant "db" 300                 (configured: a sibling)
//! ```
//!
//! A node comes with the first process of its cgroup, or of one below, and goes with the last.
//! Weights are those found when the process was last looked up.
//!
//! Invariant: a cgroup either has no node, or one below its parent cgroup's node.

use paternoster_core::{Nanos, Observer};

use super::tenants::{ROOT, Tenants};
use crate::fuse::callers::cgroup::folders;
use crate::recorded_queue::RecordedQueue;

impl Tenants {
    /// A process of this cgroup has come; a node is made for it and each of those above it, if
    /// there is room: `/a/b` with weights of `/a` and of `/a/b`.
    pub(super) fn enter_cgroup<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
        path: &str,
        weights: &[u32],
    ) -> u32 {
        let mut place = ROOT;
        for (name, &weight) in folders(path).zip(weights) {
            let Some(next) = self.cgroup(now, recorded_queue, name, place, weight) else { break };
            place = next;
        }
        self.at_mut(place).connections += 1;
        self.weigh(now, recorded_queue, path, weights);
        place
    }

    /// The node of a cgroup below another, made if need be.
    fn cgroup<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
        name: &str,
        above: u32,
        weight: u32,
    ) -> Option<u32> {
        if let Some(found) = self.find(name) {
            // A node named by the configuration stays where the configuration puts it.
            let node = self.at(found);
            return (node.is_stranger && node.parent == above).then_some(found);
        }
        self.add_stranger(now, recorded_queue, name, above, weight)
    }

    /// Sets the weights of a cgroup and those above it to their present values.
    pub(super) fn weigh<O: Observer>(
        &mut self,
        now: Nanos,
        recorded_queue: &mut RecordedQueue<O>,
        path: &str,
        weights: &[u32],
    ) {
        for (name, &weight) in folders(path).zip(weights) {
            let Some(place) = self.find(name) else { return };
            self.at_mut(place).weight = weight;
            self.settle(now, recorded_queue, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use paternoster_core::{DeviceFacts, Limits, NoObserver};

    use super::*;
    use crate::config::Config;

    fn none_yet() -> (Tenants, RecordedQueue<NoObserver>) {
        let elevator = paternoster_schedulers::by_name("bfq").unwrap();
        let limits = Limits { groups: 64, ..Limits::default() };
        let mut recorded_queue =
            RecordedQueue::new(DeviceFacts::default(), limits, elevator, NoObserver).unwrap();
        (Tenants::new(&Config::default(), &mut recorded_queue).unwrap(), recorded_queue)
    }

    fn names(tenants: &Tenants) -> Vec<(String, String, u32)> {
        let lines = tenants.lines().into_iter();
        lines.map(|line| (line.name, line.parent, line.weight)).collect()
    }

    fn line(name: &str, parent: &str, weight: u32) -> (String, String, u32) {
        (name.into(), parent.into(), weight)
    }

    /// Is each cgroup below the one above, once, with its weight?
    #[test]
    fn cgroups_are_a_tree() {
        let (mut tenants, mut recorded_queue) = none_yet();
        let now = Nanos::ZERO;
        let one = tenants.enter_cgroup(now, &mut recorded_queue, "/a/b", &[200, 50]);
        let two = tenants.enter_cgroup(now, &mut recorded_queue, "/a/c", &[200, 150]);
        let three = tenants.enter_cgroup(now, &mut recorded_queue, "/a", &[200]);
        let tree = [line("/a", "", 200), line("/a/b", "/a", 50), line("/a/c", "/a", 150)];
        assert_eq!(names(&tenants), tree);
        assert_eq!(tenants.at(one).parent, three);
        // 50 and 150 of one level: a quarter.
        assert_eq!(tenants.share_of_level(one), 250);
        // Its parent stays as long as a process is below it.
        tenants.leave(now, &mut recorded_queue, three);
        tenants.leave(now, &mut recorded_queue, two);
        assert_eq!(names(&tenants), [line("/a", "", 200), line("/a/b", "/a", 50)]);
        tenants.leave(now, &mut recorded_queue, one);
        assert_eq!(names(&tenants), []);
    }

    /// Do weights change in place, for all present processes?
    #[test]
    fn weights_change() {
        let (mut tenants, mut recorded_queue) = none_yet();
        let now = Nanos::ZERO;
        let one = tenants.enter_cgroup(now, &mut recorded_queue, "/a", &[100]);
        let two = tenants.enter_cgroup(now, &mut recorded_queue, "/b", &[100]);
        assert_eq!(tenants.share_of_level(one), 500);
        tenants.weigh(now, &mut recorded_queue, "/a", &[300]);
        // 300 of 400.
        assert_eq!((tenants.share_of_level(one), tenants.share_of_level(two)), (750, 250));
    }

    /// Do processes of the root compete with the cgroups?
    #[test]
    fn the_root_has_processes_too() {
        let (mut tenants, mut recorded_queue) = none_yet();
        assert_eq!(tenants.enter_root(), ROOT);
        assert_eq!(tenants.enter_cgroup(Nanos::ZERO, &mut recorded_queue, "", &[]), ROOT);
        assert_eq!(tenants.at(ROOT).connections, 2);
        tenants.leave(Nanos::ZERO, &mut recorded_queue, ROOT);
        assert_eq!(tenants.at(ROOT).connections, 1);
    }
}
