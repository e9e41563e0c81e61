// SPDX-License-Identifier: MIT OR Apache-2.0
//! Roff: a man page from a page of our documentation, so that each is written once.
//!
//! ```text
//! # title        ─▶ .TH, NAME         | key | default | meaning |  ─▶ .TP key, the rest below
//! ## [server]    ─▶ .SH               * item                        ─▶ .IP
//! ### more       ─▶ .SS               ```                           ─▶ .nf … .fi
//! `code` **bold** ─▶ \fB              [text](link)                  ─▶ text
//! ```
//!
//! That is the Markdown that our pages use; anything else comes out as text.

use std::fmt::Write;

/// A page of this name and section.
pub(crate) fn page(name: &str, section: u8, what: &str, markdown: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(
        ".TH {name} {section} \"\" \"paternoster {version}\"\n.SH NAME\n{name} \\- {what}\n\
         .SH DESCRIPTION\n"
    );
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("# ") || line.trim().is_empty() {
            continue;
        }
        if let Some(heading) = line.strip_prefix("## ") {
            let _infallible = writeln!(text, ".SH \"{}\"", inline(heading));
        } else if let Some(heading) =
            line.strip_prefix("### ").or_else(|| line.strip_prefix("#### "))
        {
            let _infallible = writeln!(text, ".SS \"{}\"", inline(heading));
        } else if line.starts_with("```") {
            text += ".PP\n.nf\n.RS 4\n";
            for code in lines.by_ref().take_while(|line| !line.starts_with("```")) {
                text += &(whole(&escaped(code)) + "\n");
            }
            text += ".RE\n.fi\n";
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line)];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(cells(row));
            }
            table(&mut text, &rows);
        } else {
            let item = line.strip_prefix("* ").or_else(|| line.strip_prefix("- "));
            text += if item.is_some() { ".IP \\(bu 2\n" } else { ".PP\n" };
            let mut words = item.unwrap_or(line).to_owned();
            let goes_on = |next: &&str| {
                !next.trim().is_empty() && !next.starts_with(['|', '#', '`', '*', '-'])
                    || next.starts_with('`') && !next.starts_with("```")
                    || next.starts_with("**")
            };
            while let Some(next) = lines.next_if(goes_on) {
                words = words + " " + next.trim();
            }
            text += &(whole(&inline(&words)) + "\n");
        }
    }
    text
}

/// The cells of a row; an escaped bar is text.
fn cells(row: &str) -> Vec<String> {
    let kept = row.trim().trim_matches('|').replace("\\|", "\u{1}");
    kept.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

/// Each row by its first cell; the last explains, those between have the names of their columns.
fn table(text: &mut String, rows: &[Vec<String>]) {
    let Some((heads, rows)) = rows.split_first() else { return };
    for row in rows.iter().skip(1) {
        let [first, between @ .., last] = &row[..] else { continue };
        let _infallible =
            writeln!(text, ".TP\n{}\n{}", whole(&inline(first)), whole(&inline(last)));
        for (head, cell) in heads.iter().skip(1).zip(between).filter(|(_, cell)| !cell.is_empty()) {
            let _infallible = writeln!(text, ".br\n{}: {}", inline(head), inline(cell));
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// A line that is not a roff request.
fn whole(line: &str) -> String {
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() }
}

/// Text with its emphasis, and links by their text.
fn inline(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['`', '*', '[']) {
        out += &escaped(&rest[..at]);
        rest = &rest[at..];
        let span = |mark: &str| {
            let inner = rest.strip_prefix(mark)?;
            let end = inner.find(mark).filter(|&end| end > 0)?;
            Some((&inner[..end], &inner[end + mark.len()..]))
        };
        let link = rest.strip_prefix('[').and_then(|inner| {
            let (words, after) = inner.split_once("](")?;
            let (_, after) = after.split_once(')')?;
            (!words.contains('[')).then_some((words, after))
        });
        if let (true, Some((words, after))) = (rest.starts_with('['), link) {
            (out, rest) = (out + &inline(words), after);
        } else if let Some((code, after)) = span("`").or_else(|| span("**")) {
            (out, rest) = (out + &format!("\\fB{}\\fR", escaped(code)), after);
        } else if let Some((words, after)) = span("*") {
            (out, rest) = (out + &format!("\\fI{}\\fR", escaped(words)), after);
        } else {
            // It is literal.
            out += &rest[..1];
            rest = &rest[1..];
        }
    }
    out + &escaped(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does each kind of Markdown in our pages become its man-page equivalent?
    #[test]
    fn markdown_becomes_a_page() {
        let markdown = [
            "# Title\n\nText with `code`,\n**bold** and [a link](x.md).\n\n## [server]\n\n",
            "| key | default | meaning |\n|---|---|---|\n| `a.b` | none | what `a` is |\n\n",
            "```toml\n.x = \"\\\"\n```\n\n* one\n  goes on\n* two\n",
        ];
        let expected = ".PP\nText with \\fBcode\\fR, \\fBbold\\fR and a link.\n.SH \"[server]\"\n\
                        .TP\n\\fBa.b\\fR\nwhat \\fBa\\fR is\n.br\ndefault: none\n\
                        .PP\n.nf\n.RS 4\n\\&.x = \"\\e\"\n.RE\n.fi\n\
                        .IP \\(bu 2\none goes on\n.IP \\(bu 2\ntwo\n";
        let page = page("p", 5, "what", &markdown.concat());
        assert_eq!(page.split_once(".SH DESCRIPTION\n").unwrap().1, expected);
    }
}
