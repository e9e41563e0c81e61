// SPDX-License-Identifier: MIT OR Apache-2.0
//! Format: the one list of what `--format` takes, how it is read, and where results then go.
//!
//! ```text
//! --format jsn ─▶ refused: did you mean `json`?          every command, by the same words
//! --format csv ─▶ Form::Shared(Csv)  ─▶ emit ─▶ standard output, or --output FILE
//!          btt ─▶ Form::Own(Btt)     ─▶ what the command does with a form of its own
//!      parquet ─▶ the lines of CSV as columns
//! ```
//!
//! # Invariants
//! F1  Every command takes all shared formats; what it cannot do it refuses with a reason before
//!     it runs anything.
//! F2  `parquet` has the rows and columns of `csv`. Without the feature it is refused with how it
//!     can be had.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::marker::PhantomData;
use std::path::Path;

use clap::builder::{MapValueParser, PossibleValue, TypedValueParser, ValueParserFactory};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, ValueEnum};
use paternoster_core::near;

use crate::{Failure, print_bytes};

/// The format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For a terminal.
    Table,
    /// One document.
    Json,
    /// Lines with commas.
    Csv,
    /// A page for a browser.
    Html,
    /// Tables for a document.
    Markdown,
    /// The lines of CSV as columns.
    Parquet,
}

/// Their names, and what help says. No `ValueEnum`, by which clap would take its own parser.
const ALL: [(Format, &str, &str); 6] = [
    (Format::Table, "table", "Tables for a terminal"),
    (Format::Json, "json", "One document; docs/results.md has its keys"),
    (Format::Csv, "csv", "A line for each job and direction, or what there is"),
    (Format::Html, "html", "One page for a browser"),
    (Format::Markdown, "markdown", "Tables in Markdown"),
    (
        Format::Parquet,
        "parquet",
        "The lines of csv as columns; needs a program built with the feature `parquet`",
    ),
];

impl Format {
    /// The same, or JSON if it was asked for by the option that a command had for it.
    pub fn or_json(self, json: bool) -> Format {
        if json { Format::Json } else { self }
    }
}

/// A shared format, or one that only this command has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form<E> {
    /// A format that every command has.
    Shared(Format),
    /// A format of this command alone.
    Own(E),
}

/// The own formats of a command that has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nothing {}

impl ValueEnum for Nothing {
    fn value_variants<'a>() -> &'a [Nothing] {
        &[]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match *self {}
    }
}

/// Reads both.
#[derive(Debug)]
pub struct Formats<E>(PhantomData<fn() -> E>);

impl<E> Clone for Formats<E> {
    fn clone(&self) -> Formats<E> {
        Formats(PhantomData)
    }
}

fn known<E: ValueEnum + 'static>() -> impl Iterator<Item = (PossibleValue, Form<E>)> {
    let own = E::value_variants().iter();
    let own = own.filter_map(|own| Some((own.to_possible_value()?, Form::Own(own.clone()))));
    let shared = ALL.into_iter().map(|(format, name, what)| {
        let value = PossibleValue::new(name).help(what);
        // As `analyze` called it.
        let value = if format == Format::Table { value.alias("report") } else { value };
        (value, Form::Shared(format))
    });
    own.chain(shared)
}

impl<E: ValueEnum + Send + Sync + 'static> TypedValueParser for Formats<E> {
    type Value = Form<E>;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Form<E>, clap::Error> {
        let option = argument.and_then(Arg::get_long).unwrap_or("format");
        let refused = |why: String| {
            let message = format!("--{option} {}: {why}\n", value.display());
            Err(clap::Error::raw(ErrorKind::InvalidValue, message).with_cmd(command))
        };
        let text = value.to_string_lossy();
        match known().find(|(name, _)| name.matches(&text, false)) {
            Some((_, Form::Shared(Format::Parquet))) if !cfg!(feature = "parquet") => refused(
                "this needs a program that was built with `cargo build --release --features \
                 parquet`; --format csv has the same rows"
                    .to_owned(),
            ),
            Some((_, Form::Shared(Format::Html))) if !cfg!(feature = "instruments") => refused(
                "this program was built without it; build it with `--features instruments`, or \
                 with the default features"
                    .to_owned(),
            ),
            Some((_, form)) => Ok(form),
            None => {
                let known: Vec<PossibleValue> = known::<E>().map(|(name, _)| name).collect();
                let names = known.iter().map(PossibleValue::get_name);
                refused(format!("there is no such format{}", near::hint(&text, names)))
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(known::<E>().map(|(name, _)| name)))
    }
}

impl<E: ValueEnum + Send + Sync + 'static> ValueParserFactory for Form<E> {
    type Parser = Formats<E>;

    fn value_parser() -> Formats<E> {
        Formats(PhantomData)
    }
}

impl ValueParserFactory for Format {
    type Parser = MapValueParser<Formats<Nothing>, fn(Form<Nothing>) -> Format>;

    fn value_parser() -> Self::Parser {
        Formats(PhantomData).map(|form| match form {
            Form::Shared(format) => format,
            Form::Own(nothing) => match nothing {},
        })
    }
}

/// Refuses Parquet on a terminal, before anything is run.
pub fn check(command: &ArgMatches) -> Result<(), Failure> {
    if goes_to_stdout_as_parquet(command) && std::io::stdout().is_terminal() {
        return Err(no_terminal());
    }
    Ok(())
}

/// Whether the results were asked for as Parquet, and no file for them. By the words, since the
/// option's value is of another type, and its name another one, where a command has own formats.
pub fn goes_to_stdout_as_parquet(command: &ArgMatches) -> bool {
    // Not every command knows all of these.
    let words = |id: &str| command.try_get_raw(id).ok().flatten();
    let asks = |id: &str| words(id).is_some_and(|mut words| words.any(|word| word == "parquet"));
    (asks("format") || asks("output_format")) && words("output").is_none()
}

fn no_terminal() -> Failure {
    Failure::Request(
        "--format parquet is nothing for a terminal: send it to a file, as `> results.parquet`"
            .to_owned(),
    )
}

/// Prints what was found in this format, or writes it to a file. `told` is called for text formats
/// alone.
pub fn emit(
    format: Format,
    output: Option<&Path>,
    told: impl FnOnce(Format) -> String,
) -> Result<(), Failure> {
    let bytes = match format {
        Format::Parquet => columns(&told(Format::Csv))?,
        text => told(text).into_bytes(),
    };
    match output {
        Some(path) => std::fs::write(path, bytes)
            .map_err(|error| Failure::Request(format!("{}: {error}", path.display()))),
        None if format == Format::Parquet && std::io::stdout().is_terminal() => Err(no_terminal()),
        None => print_bytes(&bytes),
    }
}

/// Lines of CSV as columns.
#[cfg(feature = "parquet")]
fn columns(csv: &str) -> Result<Vec<u8>, Failure> {
    crate::cells::columns_of(csv).map_err(|why| Failure::Job(format!("--format parquet: {why}")))
}

/// The parser has refused it.
#[cfg(not(feature = "parquet"))]
fn columns(_: &str) -> Result<Vec<u8>, Failure> {
    Err(Failure::Request("--format parquet: this program was built without it".to_owned()))
}
