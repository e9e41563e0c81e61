// SPDX-License-Identifier: MIT OR Apache-2.0
//! Knobs: what can be set and seen under `iosched/`, the policy settings and the learned figures, a
//! row of [`KNOBS`] each.
//!
//! ```text
//! strictness   one part in so many ...    tunables.strictness    the same
//! depth_max    so many commands ...       tunables.depth_max     the same, and the depth follows
//! seats        how many streams ...       seats.most             -
//! ```
//!
//! Source: R4 of `docs/rules/adaptive.md` (sigma).

use alloc::string::String;

use crate::adaptive::Paternoster;
use crate::cost_model::{CostModel, FORM};
use paternoster_core::QueueView;
use paternoster_core::attribute::Attribute;
use paternoster_core::elevator::KnobTable;
use paternoster_core::event::Note;
use paternoster_core::knob::{self, Knob};

/// How many knobs there are.
pub(super) const COUNT: usize = 18;

/// An attribute of this elevator.
type Row = Knob<Paternoster>;

/// What is shown where no model was told.
const NONE: &str = "none";

/// The model that a text means.
fn model_of(text: &str) -> Result<Option<CostModel>, String> {
    if text.is_empty() || text == NONE { Ok(None) } else { text.parse().map(Some) }
}

/// All knobs, in the order of the listing.
pub(super) static KNOBS: [Row; COUNT] = [
    Row::number(
        "strictness",
        "",
        "one part in so many of the device time may be idled away for fairness",
        |own, _| own.tunables.strictness,
        |own, _, value| own.tunables.strictness = value,
    )
    .at_least(1)
    .at_most(1_000_000),
    Row::number(
        "bulk_kept",
        "%",
        "how much throughput is kept where a shorter queue makes a shallow client wait less",
        |own, _| own.tunables.bulk_kept,
        |own, _, value| own.tunables.bulk_kept = value,
    )
    .at_least(1)
    .at_most(100),
    Row::number(
        "weights_from",
        "%",
        "weights count once requests take so much of their least time: 100 is exact shares",
        |own, _| own.tunables.weights_from,
        |own, _, value| own.tunables.weights_from = value,
    )
    .at_least(100)
    .at_most(1_000_000),
    Row::switch(
        "tag_shares",
        "1 if no client may have more requests than its share of them by weight",
        |own, _| own.tunables.tag_shares,
        |own, _, on| own.tunables.tag_shares = on,
    ),
    Row::number(
        "depth_max",
        "commands",
        "so many commands are given to the device at a time, and no fewer are tried; 0: as found",
        |own, _| own.tunables.depth_max,
        |own, view, value| {
            own.tunables.depth_max = value;
            own.depth.limit(view.facts().depth, value, view.exact_now());
        },
    )
    .at_most(1_000_000),
    Row::switch(
        "prices",
        "1 if requests are charged their cost on full SSDs and behind disks' caches; 0: their time",
        |own, _| own.tunables.prices,
        |own, _, on| {
            own.tunables.prices = on;
            own.pricing.tell(own.pricing.model(), on);
        },
    ),
    Row::line(
        "cost_model",
        FORM,
        "what requests cost this device, as io.cost.model says it; charged instead of device time",
        |own, _, out| match own.pricing.model() {
            Some(model) => write!(out, "{model}"),
            None => out.write_str(NONE),
        },
        |own, _, text| {
            own.pricing.tell(model_of(text)?, own.tunables.prices);
            Ok(())
        },
        |text| model_of(text).map(|_| ()),
    ),
    Row::switch(
        "fallback",
        "1: accounts alone decide, as the watchdog found a rule broken; 0: all rules",
        |own, _| own.watchdog.has_fallen(),
        |own, view, on| {
            if on {
                own.fall_back(view, None);
            } else if own.watchdog.rearm(view.exact_now()) {
                view.note(Note::TriesAgain);
            }
        },
    ),
    Row::figure(
        "depth",
        "",
        "how many commands the device is given at a time at present",
        |own, _| own.depth.used().into(),
    ),
    Row::figure(
        "seats",
        "",
        "how many streams are served at a time at present; 0 is without a limit",
        |own, _| own.seats.most.map_or(0, u64::from),
    ),
    Row::figure(
        "quantum_us",
        "us",
        "how much device time a turn has, where there are seats",
        |own, _| own.seats.quantum() / 1000,
    ),
    Row::figure(
        "switch_us",
        "us",
        "what it costs to go from one stream to another, as measured",
        |own, _| own.seats.change / 1000,
    ),
    Row::figure("probes", "", "how often another number of seats was tried", |own, _| {
        own.learn.probes
    }),
    Row::figure("changes", "", "how often one was accepted", |own, _| own.learn.changes),
    Row::figure(
        "kept_us",
        "us",
        "for how long a slot was kept for a client although others waited",
        |own, _| own.credit.kept_time() / 1000,
    ),
    Row::figure(
        "holds",
        "",
        "how often a client waited that was ahead of one with nothing waiting",
        |own, _| own.gate.holds,
    ),
    Row::figure("trials", "", "how often a kind of requests was tried for its cost", |own, _| {
        own.pricing.costs.trials
    }),
    Row::figure(
        "in_shared_streams",
        "clients",
        "clients that read one stream with others, and share their seat",
        |own, _| own.cooperation.streams().in_shared_streams(),
    ),
];

/// The listing.
pub(super) static ATTRIBUTES: [Attribute; COUNT] = knob::attributes(&KNOBS);

impl KnobTable for Paternoster {
    fn table(&self) -> (&'static [Knob<Paternoster>], &'static [Attribute]) {
        (&KNOBS, &ATTRIBUTES)
    }

    fn was_set(&mut self, _: &mut QueueView) {
        self.watchdog.look_anew();
    }
}
