// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random work on a file through any backend, compared with the same work on memory.

use proptest::prelude::*;

use super::rig::{PAGE, Rig, Temporary, engines, pattern};
use crate::device::Work;

/// A step of the property: at which block, how many, what.
#[derive(Debug, Clone)]
enum Step {
    Write(Vec<usize>, bool),
    Read(Vec<usize>),
    Zero(usize, bool),
    Discard(usize),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let cuts = || prop::collection::vec(1usize..4, 1..5);
    prop_oneof![
        (cuts(), any::<bool>()).prop_map(|(cuts, fua)| Step::Write(cuts, fua)),
        cuts().prop_map(Step::Read),
        (1usize..16, any::<bool>()).prop_map(|(blocks, unmap)| Step::Zero(blocks, unmap)),
        (1usize..16).prop_map(Step::Discard),
        Just(Step::Flush),
    ]
}

/// Blocks of the property's file.
const BLOCKS: usize = 32;

fn same_as_memory(rig: &mut Rig, steps: &[(usize, Step)]) -> Result<(), TestCaseError> {
    let (block, how) = (rig.backend.file(0).block as usize, rig.backend.describe());
    let mut model = vec![0u8; BLOCKS * block];
    for (turn, (place, step)) in steps.iter().enumerate() {
        let room = |blocks: usize| (place % (BLOCKS + 1 - blocks)) * block;
        let bytes = |cuts: &[usize]| cuts.iter().map(|cut| cut * block).collect::<Vec<_>>();
        match step {
            Step::Write(cuts, fua) => {
                let (at, cuts) = (room(cuts.iter().sum()), bytes(cuts));
                let data = pattern(turn, cuts.iter().sum());
                prop_assert_eq!(rig.write(at, &data, &cuts, *fua), 0, "{}", how);
                model[at..at + data.len()].copy_from_slice(&data);
            }
            Step::Read(cuts) => {
                let (at, cuts) = (room(cuts.iter().sum()), bytes(cuts));
                let data = rig.read(at, &cuts).unwrap();
                prop_assert!(data == model[at..at + data.len()], "{}: read at {}", how, at);
            }
            Step::Zero(blocks, may_unmap) => {
                let (at, length) = (room(*blocks), blocks * block);
                let work = Work::Zero { may_unmap: *may_unmap, fua: false, fast: false };
                prop_assert_eq!(rig.run(work, at, length, &[]), 0, "{}", how);
                model[at..at + length].fill(0);
            }
            Step::Discard(blocks) => {
                let (at, length) = (room(*blocks), blocks * block);
                prop_assert_eq!(rig.run(Work::Discard, at, length, &[]), 0, "{}", how);
                if rig.backend.file(0).discards {
                    model[at..at + length].fill(0);
                }
            }
            Step::Flush => prop_assert_eq!(rig.run(Work::Flush, 0, 0, &[]), 0, "{}", how),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Does a file written through any backend hold what memory would hold?
    #[test]
    fn a_file_is_as_memory(steps in prop::collection::vec((0usize..BLOCKS, step()), 1..24)) {
        for (folder, engine, direct) in engines() {
            let file = Temporary::new(&folder, BLOCKS * PAGE);
            if let Some(mut rig) = Rig::open(&[&file.0], engine, direct) {
                same_as_memory(&mut rig, &steps)?;
            }
        }
    }
}
