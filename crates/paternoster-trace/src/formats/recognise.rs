// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recognise: which format a trace has, from its contents and never from its name.
//!
//! ```text
//! first bytes ─▶ magic of blktrace? versions of vscsi?       binary: certain
//!             ├▶ a line of blkparse, of a kernel's tracer?   no other format's look like them
//!             ├▶ blkreplay's heading, after a licence?
//!             └▶ its first lines, read as each other format  the one that reads most of them
//! ```
//!
//! A heading (`fio version 3 iolog`, `TIME(s) COMM …`) is certain too. Any other text is read as
//! each format; a format is a candidate if it reads more of the first [`LINES`] lines than it
//! refuses. The candidate that reads most is taken, of several the first in [`Format::ALL`].
//!
//! Many formats are numbers between commas or blanks. They differ as follows:
//!
//! | fields | format |
//! |---|---|
//! | `n,n,n,r\|w,seconds…` | SPC: the letter is fourth |
//! | `n,R\|W,n,n,n` | Alibaba: the letter is second |
//! | `n,seconds,R\|W,n,n` | K5: the letter is third, of five |
//! | `seconds,seconds,R\|W,n,n,n` | SYSTOR: the letter is third, of six |
//! | `n,name,n,Read\|Write,n,n,n` | MSR: the word is fourth, of seven |
//! | `1\|2,n,hex,n,n` | CloudPhysics: begins with 1 or 2, a command third |
//! | `n,n,n,0\|1,n` | Tencent: no letter, 0 or 1 fourth, and Unix times of this century |
//! | `n n n n 0\|1` | MQSim: whole times |
//! | `ms n n n hex` | DiskSim: times with decimals, or flags above 1 |
//! | `n` | blocks: any list of numbers |
//! | `seconds;n;n;letters;seconds;seconds` | blkreplay |
//!
//! Two cannot always be distinguished: a DiskSim trace whose times are all whole and whose flags
//! are 0 and 1 reads as MQSim. The user of such a trace must name its format, as must the user of
//! one of Tencent's with other times.

use super::alibaba::Alibaba;
use super::biosnoop::Biosnoop;
use super::blkreplay::Blkreplay;
use super::cloudphysics::{Blocks, CloudPhysics};
use super::disksim::{Disksim, Validation};
use super::fiu::Fiu;
use super::form::{Form, is_blank};
use super::iolog::Iolog;
use super::k5::K5;
use super::mqsim::Mqsim;
use super::msr::Msr;
use super::names::Names;
use super::spc::Spc;
use super::startup::Startup;
use super::systor::Systor;
use super::tencent::Tencent;
use super::{Format, blkparse_text, blkreplay, ftrace_text, vscsi};
use crate::blktrace::Layout;

/// Bytes of a trace that are looked at.
pub const HEAD: usize = 64 << 10;
/// Lines of a text that are looked at.
const LINES: usize = 32;

/// The format of a trace that begins like this; `None` if it is not known. No more than [`HEAD`]
/// bytes are looked at.
#[must_use]
pub fn recognise(head: &[u8]) -> Option<Format> {
    let head = &head[..head.len().min(HEAD)];
    if head.first_chunk().is_some_and(|magic| Layout::of_magic(*magic).is_some()) {
        return Some(Format::Blktrace);
    }
    if vscsi::looks_like(head) {
        return Some(Format::Vscsi);
    }
    if blkparse_text::looks_like(head) {
        return Some(Format::Blkparse);
    }
    if ftrace_text::looks_like(head) {
        return Some(Format::Ftrace);
    }
    if blkreplay::looks_like(head) {
        return Some(Format::Blkreplay);
    }
    let mut best = (0, None);
    for format in Format::ALL {
        let read = read_as(format, head);
        if read > best.0 {
            best = (read, Some(format));
        }
    }
    best.1
}

/// How many of the first lines this format reads, more than there are with its heading; 0 if it
/// refuses as many.
fn read_as(format: Format, head: &[u8]) -> usize {
    match format {
        Format::Blktrace | Format::Vscsi | Format::Blkparse | Format::Ftrace => 0,
        Format::Iolog => lines_read::<Iolog>(head),
        Format::Biosnoop => lines_read::<Biosnoop>(head),
        Format::Msr => lines_read::<Msr>(head),
        Format::Spc => lines_read::<Spc>(head),
        Format::Alibaba => lines_read::<Alibaba>(head),
        Format::Tencent => lines_read::<Tencent>(head),
        Format::Systor => lines_read::<Systor>(head),
        Format::K5 => lines_read::<K5>(head),
        Format::CloudPhysics => lines_read::<CloudPhysics>(head),
        Format::Mqsim => lines_read::<Mqsim>(head),
        Format::Disksim => lines_read::<Disksim>(head),
        Format::Validation => lines_read::<Validation>(head),
        Format::Fiu => lines_read::<Fiu>(head),
        Format::Startup => lines_read::<Startup>(head),
        Format::Blocks => lines_read::<Blocks>(head),
        Format::Blkreplay => lines_read::<Blkreplay>(head),
    }
}

fn lines_read<F: Form>(head: &[u8]) -> usize {
    let mut lines: Vec<&[u8]> = head.split(|byte| *byte == b'\n').take(LINES + 1).collect();
    // The last one may be cut, unless it is the only one.
    if lines.len() > 1 && (lines.len() > LINES || head.len() == HEAD) {
        lines.pop();
    }
    let (mut form, mut names) = (F::default(), Names::default());
    let (mut right, mut wrong, mut headed) = (0_usize, 0_usize, false);
    for line in lines {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if is_blank(line) {
            continue;
        }
        headed |= F::is_heading(line);
        match form.line(line, &mut names) {
            Ok(_) if F::is_likely(line) => right += 1,
            _ => wrong += 1,
        }
    }
    match headed {
        true => LINES + 1 + right,
        false if right > wrong => right,
        false => 0,
    }
}
