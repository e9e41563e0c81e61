// SPDX-License-Identifier: MIT OR Apache-2.0
//! Version: what later kernels changed, each change with a name.
//!
//! There is one BFQ here. A difference between two kernels is a switch in this table, and so are
//! bugs that both have (`steps_back`, `takes_shortcuts`), so that tests can do without them; a
//! mechanism that one may want to switch off by itself is an attribute, whose default is here:
//!
//! ```text
//! bfq-4.19  4.19 LTS   with seed 004's merge window and seed 002's injection by coefficient
//! bfq       6.18       measured injection, wakers, stable merging, no merging on queueing flash
//! ```
//!
//! Source: the rules that each switch names; their page says what the recorded decisions of 6.18
//! confirm.

use crate::bfq::tunables::Inject;
use paternoster_core::observe::queue_depth::Probing;

/// What a kernel's BFQ does in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) name: &'static str,
    /// Virtual time may step back while no entity is active (BFQ-17).
    pub(super) steps_back: bool,
    /// The next member may be replaced without a lookup (BFQ-13).
    pub(super) takes_shortcuts: bool,
    /// A queue's account starts at zero when it is selected, so that injected service was free; if
    /// not, it is charged for what it was served outside its turn (BFQ-8, BFQ-16).
    pub(super) forgets_injected: bool,
    /// Think time and seeks are learned before a request is added (BFQ-34).
    pub(super) learns_first: bool,
    /// A queue is I/O bound if it is idle at most a fifth of the time; otherwise, if it keeps
    /// coming back in time (BFQ-88, BFQ-89).
    pub(super) measures_idleness: bool,
    /// A queue with a higher class or weight preempts, and any queue if the device is not idled for
    /// (BFQ-54); otherwise only one that is raised more (BFQ-53).
    pub(super) preempts_by_weight: bool,
    /// A hole is recovered only with budget left (BFQ-51).
    pub(super) hole_needs_budget: bool,
    /// A small request makes BFQ wait for more only if idling is for throughput (BFQ-47).
    pub(super) patient_for_throughput_only: bool,
    /// What idling for guarantees depends on (BFQ-72 to BFQ-74).
    pub(super) guarantees: Guarantees,
    /// Async requests are charged threefold only where all queues weigh the same (BFQ-43).
    pub(super) charges_async_if_symmetric: bool,
    /// Queues are not merged on flash that queues commands (BFQ-123).
    pub(super) merges_not_on_queueing_flash: bool,
    /// How BFQ finds out that the device queues commands (BFQ-82).
    pub(super) probing: Probing,
    /// Depth is not probed while the device is kept empty for the queue in service.
    pub(super) probes_not_when_starved: bool,
    /// A think time above half of `slice_idle` is long; otherwise, above all of it (BFQ-87).
    pub(super) halves_think_limit: bool,
    /// Think time counts only for a queue that had come to rest (BFQ-86).
    pub(super) thinks_at_rest_only: bool,
    /// Only queues of default weight are raised, and a totally seeky queue loses soft real time
    /// (BFQ-95, BFQ-96, BFQ-107).
    pub(super) raises_default_weight_only: bool,
    /// A burst begins only on a device without work (BFQ-110, BFQ-111).
    pub(super) bursts_begin_at_rest: bool,
    /// A queue preempted while empty stays among those to be served, if guarantees need it
    /// (BFQ-61).
    pub(super) keeps_empty_preempted: bool,
    /// A split queue is raised again only with `low_latency` (BFQ-137).
    pub(super) resumes_raise_if_wanted: bool,
    /// Device rates above this, in sectors per microsecond, are not believed (BFQ-77).
    pub(super) top_rate: u64,
    /// Defaults of attributes.
    pub(super) inject: Inject,
    /// Stable merging, wakers, and tags shared by weight.
    pub(super) late_mechanisms: bool,
}

impl Version {
    /// A queue is charged for what it was served outside its turn.
    pub(super) const fn charges_outsiders(&self) -> bool {
        !self.forgets_injected
    }
}

/// What decides about idling for guarantees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guarantees {
    /// Weights that differ, or a group with work; never for a queue of a large burst (4.19 LTS).
    AnyGroup,
    /// Weights above the least, several classes or groups; also the only busy queue, and a raised
    /// queue while others keep the device busy (5.2 to 6.2 on).
    TwoGroups,
}

/// Linux 4.19 LTS, with what seeds 002 and 004 add.
pub(super) const LINUX_4_19: Version = Version {
    name: "bfq-4.19",
    steps_back: true,
    takes_shortcuts: true,
    forgets_injected: true,
    learns_first: false,
    measures_idleness: false,
    preempts_by_weight: false,
    hole_needs_budget: false,
    patient_for_throughput_only: false,
    guarantees: Guarantees::AnyGroup,
    charges_async_if_symmetric: false,
    merges_not_on_queueing_flash: false,
    probing: Probing::BFQ_4_19,
    probes_not_when_starved: false,
    halves_think_limit: false,
    thinks_at_rest_only: false,
    raises_default_weight_only: false,
    bursts_begin_at_rest: false,
    keeps_empty_preempted: false,
    resumes_raise_if_wanted: false,
    top_rate: TOP_RATE,
    inject: Inject::Coefficient,
    late_mechanisms: false,
};

/// Linux 6.18, whose recorded decisions the tests read.
pub(super) const LINUX_6_18: Version = Version {
    name: "bfq",
    forgets_injected: false,
    learns_first: true,
    measures_idleness: true,
    preempts_by_weight: true,
    hole_needs_budget: true,
    patient_for_throughput_only: true,
    guarantees: Guarantees::TwoGroups,
    charges_async_if_symmetric: true,
    merges_not_on_queueing_flash: true,
    probing: Probing::BFQ,
    probes_not_when_starved: true,
    halves_think_limit: true,
    thinks_at_rest_only: true,
    raises_default_weight_only: true,
    bursts_begin_at_rest: true,
    keeps_empty_preempted: true,
    resumes_raise_if_wanted: true,
    inject: Inject::Measured,
    late_mechanisms: true,
    ..LINUX_4_19
};

/// 100 GB/s.
///
/// Differs: Linux does not believe more than 20 sectors per microsecond, 10.24 GB/s, which PCIe 5
/// drives exceed (BFQ-77). Nothing else depends on the bound.
const TOP_RATE: u64 = 200;
