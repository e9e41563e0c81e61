// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synopsis: the first lines of a manual page, with the values of options.
//!
//! ```text
//! clap_mangen   paternoster compare [--goal] [--seeds] <--device> <JOB.fio>
//! here          paternoster compare --device NAME|FILE.toml [--goal TEXT]... [--seeds N] JOB.fio
//! ```
//!
//! What must be given stands first among the options and without brackets, as `man-pages(7)` has
//! it. Invariant: every option of the command that is not hidden stands here once.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

/// The page with a new synopsis; a page without one stays as it is.
pub(crate) fn rewritten(page: &str, command: &Command) -> String {
    const HEAD: &str = "\n.SH SYNOPSIS\n";
    let Some((before, rest)) = page.split_once(HEAD) else { return page.to_owned() };
    let after = rest.split_once("\n.SH ").map_or("", |(_, after)| after);
    format!("{before}{HEAD}{}\n.SH {after}", of(command))
}

/// The synopsis of a command, in roff.
fn of(command: &Command) -> String {
    // clap names a page's command with hyphens, and the words that are typed with blanks.
    let typed = command.get_bin_name().unwrap_or(command.get_name());
    let mut line = format!("\\fB{}\\fR", escaped(typed));
    let shown = || command.get_arguments().filter(|one| !one.is_hide_set());
    let options = || shown().filter(|one| !one.is_positional());
    let required = options().filter(|one| one.is_required_set());
    let others = options().filter(|one| !one.is_required_set());
    for one in required.chain(others).chain(shown().filter(|one| one.is_positional())) {
        let _infallible = write!(line, " {}", argument(one));
    }
    if command.has_subcommands() {
        let word = if command.is_subcommand_required_set() { "COMMAND" } else { "[COMMAND]" };
        let _infallible = write!(line, " \\fI{}\\fR", escaped(word));
    }
    line
}

/// One option or operand, in brackets where it may be left out, with dots where it may be repeated.
fn argument(one: &Arg) -> String {
    let mut text = String::new();
    let name = match (one.get_long(), one.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => String::new(),
    };
    if !name.is_empty() {
        let _infallible = write!(text, "\\fB{}\\fR", escaped(&name));
    }
    if one.get_action().takes_values() {
        let own = [one.get_id().as_str().to_uppercase().into()];
        for value in one.get_value_names().unwrap_or(&own) {
            let blank = if text.is_empty() { "" } else { " " };
            // `NAME|FILE` and `[NAME:]FILE` are written as they are; brackets of clap are not ours.
            let _infallible = write!(text, "{blank}\\fI{}\\fR", escaped(value));
        }
    }
    let several = one.get_num_args().is_some_and(|range| range.max_values() > 1);
    let repeats = matches!(one.get_action(), ArgAction::Append | ArgAction::Count) || several;
    let text = if one.is_required_set() { text } else { format!("[{text}]") };
    if repeats { text + "..." } else { text }
}

/// A hyphen of roff is a line break's; a minus is what is typed.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}
