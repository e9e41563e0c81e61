// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines: a job file cut into headers and options, with included files in their place.
//!
//! ```text
//! ; comment            first character not blank is ; or #
//! [name]               Header
//! bs=4k   ; comment    Option: a comment also begins at a ; or # after a blank
//! time_based           Option without a value
//! include other.fio    the lines of that file, which must have no header
//! ```
//!
//! Everything that grows has a limit: an include that includes itself twice would otherwise double
//! the text eight times over.
//!
//! Source: FIO-1, FIO-6, FIO-9.

use std::rc::Rc;

use super::problem::{PROBLEMS_MAX, Problem};

/// Bytes of one file.
const FILE_MAX: usize = 1 << 20;
/// Bytes of all files together, each counted as often as it is included.
const TEXT_MAX: usize = 4 << 20;
/// Bytes of one line.
const LINE_MAX: usize = 16 << 10;
/// Files between the job file and the innermost include.
const INCLUDE_DEPTH_MAX: usize = 8;

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// `[name]`
    Header(String),
    /// `key=value`, or a bare `key`.
    Option(String, Option<String>),
    /// An option that could not be read; the problem is reported already.
    Wrong,
}

/// A line that says something.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) file: Rc<str>,
    pub(super) number: u32,
    /// As written, without comment and outer blanks.
    pub(super) text: String,
    pub(super) content: Content,
}

/// What an `include` line brings: the file's name and text, or why it cannot be read.
pub type Included = Result<(String, String), String>;

type Include<'a> = &'a dyn Fn(&str, &str) -> Included;

/// Cuts sources into lines, following includes.
pub(super) struct Lexer<'a> {
    include: Include<'a>,
    /// Files that are open, outermost first.
    open: Vec<String>,
    text_left: usize,
    lines: Vec<Line>,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(include: Include<'a>) -> Lexer<'a> {
        Lexer { include, open: Vec::new(), text_left: TEXT_MAX, lines: Vec::new() }
    }

    /// The lines of a job file.
    pub(super) fn file(
        &mut self,
        name: &str,
        text: &str,
        problems: &mut Vec<Problem>,
    ) -> Vec<Line> {
        self.read(name, text, problems);
        core::mem::take(&mut self.lines)
    }

    /// Recurses only through includes, whose depth is bounded.
    fn read(&mut self, name: &str, text: &str, problems: &mut Vec<Problem>) {
        let too_large = if text.len() > FILE_MAX {
            Some(format!("the file has {} bytes, at most {FILE_MAX} fit", text.len()))
        } else if text.len() > self.text_left {
            Some(format!("the job files and all includes have more than {TEXT_MAX} bytes"))
        } else {
            None
        };
        if let Some(message) = too_large {
            problems.push(Problem::new(name, 1, name, message));
            return;
        }
        self.text_left -= text.len();
        self.open.push(name.to_owned());
        let file: Rc<str> = Rc::from(name);
        for (raw, number) in text.trim_start_matches('\u{feff}').lines().zip(1..) {
            if problems.len() >= PROBLEMS_MAX {
                break;
            }
            if let Err(message) = self.line(&file, number, raw, problems) {
                let text = raw.trim();
                problems.push(Problem::new(name, number, text, message));
                // A broken header is no option of the section above it.
                if !text.starts_with('[') {
                    let (file, content) = (Rc::clone(&file), Content::Wrong);
                    self.lines.push(Line { file, number, text: String::new(), content });
                }
            }
        }
        self.open.pop();
    }

    fn line(
        &mut self,
        file: &Rc<str>,
        number: u32,
        raw: &str,
        problems: &mut Vec<Problem>,
    ) -> Result<(), String> {
        if raw.len() > LINE_MAX {
            return Err(format!("the line has {} bytes, at most {LINE_MAX} fit", raw.len()));
        }
        let text = without_comment(raw);
        if text.is_empty() {
            return Ok(());
        }
        if let Some(name) = text.strip_prefix("include").filter(|n| n.starts_with([' ', '\t'])) {
            return self.included(file, name.trim(), problems);
        }
        let content = content(text)?;
        if self.open.len() > 1 && matches!(content, Content::Header(_)) {
            return Err("an included file cannot begin a section".to_owned());
        }
        let file = Rc::clone(file);
        self.lines.push(Line { file, number, text: text.to_owned(), content });
        Ok(())
    }

    fn included(
        &mut self,
        file: &Rc<str>,
        named: &str,
        problems: &mut Vec<Problem>,
    ) -> Result<(), String> {
        // The job file itself is open but is no include.
        if self.open.len() > INCLUDE_DEPTH_MAX {
            return Err(format!("includes are nested more than {INCLUDE_DEPTH_MAX} deep"));
        }
        let (name, text) = (self.include)(file, named)
            .map_err(|message| format!("`{named}` cannot be included: {message}"))?;
        if self.open.contains(&name) {
            return Err(format!("include loop: {} -> {name}", self.open.join(" -> ")));
        }
        self.read(&name, &text, problems);
        Ok(())
    }
}

/// `raw` without comment and outer blanks.
fn without_comment(raw: &str) -> &str {
    let text = raw.trim();
    if text.starts_with([';', '#']) {
        return "";
    }
    let mut after_blank = false;
    for (at, letter) in text.char_indices() {
        if after_blank && (letter == ';' || letter == '#') {
            return text[..at].trim_end();
        }
        after_blank = letter == ' ' || letter == '\t';
    }
    text
}

fn content(text: &str) -> Result<Content, String> {
    if let Some(rest) = text.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((name, "")) if !name.trim().is_empty() => {
                Ok(Content::Header(name.trim().to_owned()))
            }
            Some((_, "")) => Err("the section has no name: write `[name]`".to_owned()),
            Some(_) => Err("nothing may follow the `]` of a section".to_owned()),
            None => Err("the section's `[` is not closed by `]`".to_owned()),
        };
    }
    option(text)
}

/// `key=value` or a bare `key`.
pub(super) fn option(text: &str) -> Result<Content, String> {
    let Some((key, value)) = text.split_once('=') else {
        return match text.split_once([' ', '\t']) {
            None => Ok(Content::Option(text.to_owned(), None)),
            Some((key, _)) => Err(format!("an option has no blanks: write `{key}=value`")),
        };
    };
    if key.is_empty() {
        return Err("the option's name is missing before `=`".to_owned());
    }
    if key.ends_with([' ', '\t']) || value.starts_with([' ', '\t']) {
        return Err(format!(
            "no blanks are allowed around `=`: write `{}={}`",
            key.trim(),
            value.trim()
        ));
    }
    Ok(Content::Option(key.to_owned(), Some(value.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are comments cut where fio cuts them, and only there?
    #[test]
    fn comments() {
        assert_eq!(without_comment("  ; all"), "");
        assert_eq!(without_comment("bs=4k ; four"), "bs=4k");
        assert_eq!(without_comment("bs=4k\t#four"), "bs=4k");
        assert_eq!(without_comment("filename=a;b#c\r"), "filename=a;b#c");
    }

    /// Is every kind of line recognised?
    #[test]
    fn contents() {
        assert_eq!(content("[a b]"), Ok(Content::Header("a b".to_owned())));
        assert!(content("[]").is_err());
        assert!(content("[a").is_err());
        assert!(content("[a] x").is_err());
        assert_eq!(content("k"), Ok(Content::Option("k".to_owned(), None)));
        let value = Some("a=b".to_owned());
        assert_eq!(content("k=a=b"), Ok(Content::Option("k".to_owned(), value)));
        assert!(content("=4k").is_err());
    }
}
