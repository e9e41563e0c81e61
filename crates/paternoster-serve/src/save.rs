// SPDX-License-Identifier: MIT OR Apache-2.0
//! Save: what was ordered of a running server becomes its configuration file.
//!
//! ```text
//! file ──▶ document (comments, order) ──one value for each key that was ordered──▶ text
//!      ──▶ read as at a start: sound? ──▶ FILE.new, synced ──▶ renamed over the file
//! ```
//!
//! Only those keys are changed in which the running server differs from what it has read: what
//! someone has written into the file meanwhile stays.
//!
//! Invariants: I1 the file is the old one or the new one, even after a power cut; I2 it is written
//! through no symlink; I3 what is written is sound.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, value};

use crate::config::Config;
use crate::config::flat::Change;

/// The text with these changes.
///
/// # Errors
/// What is wrong in the text.
pub(crate) fn changed(text: &str, changes: &[Change]) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| format!("{error}"))?;
    for Change { key, values: (_, new) } in changes {
        let [kind, name, rest @ ..] = &key[..] else { continue };
        let section = section(document.as_table_mut(), kind)?;
        let section = self::section(section, name)?;
        let [key] = rest else { continue };
        let (section, key) = match key.strip_prefix("attributes.") {
            Some(attribute) => (table_like(section, "attributes")?, attribute),
            None => (section as &mut dyn toml_edit::TableLike, key.as_str()),
        };
        match new {
            None => drop(section.remove(key)),
            Some(new) => set(section, key, new),
        }
    }
    Ok(document.to_string())
}

/// Sets a value; the comment after it stays.
fn set(section: &mut dyn toml_edit::TableLike, key: &str, new: &str) {
    let mut item = new.parse::<i64>().map_or_else(|_| value(new), value);
    let decor = section.get(key).and_then(Item::as_value).map(|old| old.decor().clone());
    if let (Some(decor), Some(new)) = (decor, item.as_value_mut()) {
        *new.decor_mut() = decor;
    }
    section.insert(key, item);
}

/// A section of this name below another.
fn section<'a>(above: &'a mut Table, name: &str) -> Result<&'a mut Table, String> {
    let made = || {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    };
    let item = above.entry(name).or_insert_with(made);
    item.as_table_mut().ok_or_else(|| format!("`{name}` is no section of its own: write it as one"))
}

fn table_like<'a>(
    above: &'a mut Table,
    name: &str,
) -> Result<&'a mut dyn toml_edit::TableLike, String> {
    let item = above.entry(name).or_insert_with(|| value(toml_edit::InlineTable::new()));
    item.as_table_like_mut().ok_or_else(|| format!("`{name}` is no table"))
}

/// Writes changes into a configuration file.
///
/// # Errors
/// Why it is as it was.
pub(crate) fn save(file: &Path, changes: &[Change]) -> Result<(), String> {
    let shown = file.display();
    let named = |error: &dyn std::fmt::Display| format!("{shown}: {error}");
    let found = fs::symlink_metadata(file).map_err(|error| named(&error))?;
    if !found.is_file() {
        return Err(named(&"it is no plain file: what it leads to is not written to"));
    }
    let text = fs::read_to_string(file).map_err(|error| named(&error))?;
    let text = changed(&text, changes).map_err(|error| named(&error))?;
    Config::parse(&shown.to_string(), &text)
        .map_err(|error| format!("with what was ordered it would be wrong: {error}"))?;
    replace(file, &found, &text).map_err(|error| {
        let is_kept_out = matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
        );
        let hint = "; it is replaced by the server's user, which must be able to write into its \
                    folder (of a service: ReadWritePaths=, too)";
        named(&error) + if is_kept_out { hint } else { "" }
    })
}

/// Puts another file in the place of this one, with its owner and mode.
fn replace(file: &Path, found: &fs::Metadata, text: &str) -> io::Result<()> {
    let mut path = file.as_os_str().to_owned();
    path.push(".new");
    let path = Path::new(&path);
    // A temporary file that a power cut has left.
    let _none = fs::remove_file(path);
    let written = || {
        let mode = found.mode() & 0o7777;
        // `create_new` follows no symlink. In the sandbox the mode cannot be changed any more.
        let mut new = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        let made = new.metadata()?;
        if (made.uid(), made.gid()) != (found.uid(), found.gid()) {
            // A server that is not root keeps its own files its own.
            let _kept = fchown(&new, Some(found.uid()), Some(found.gid()));
        }
        if made.mode() & 0o7777 != mode {
            // What the umask has taken away. Without, fewer can read it, which is no harm.
            let _kept = new.set_permissions(fs::Permissions::from_mode(mode));
        }
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        fs::rename(path, file)
    };
    written().inspect_err(|_| drop(fs::remove_file(path)))?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &[&str], new: Option<&str>) -> Change {
        let key = key.iter().map(|part| (*part).to_owned()).collect();
        Change { key, values: (None, new.map(str::to_owned)) }
    }

    /// Are values set in place, comments and order kept, and missing sections added?
    #[test]
    fn comments_stay() {
        let text = "\
# the house
[server]
listen = \"unix:/s\" # here

[tenant.gold]
weight = 100 # until Monday
class = \"idle\"
";
        let told = changed(
            text,
            &[
                change(&["device", "disk", "attributes.slice_idle"], Some("0")),
                change(&["device", "disk", "scheduler"], Some("cfq")),
                change(&["tenant", "gold", "class"], None),
                change(&["tenant", "gold", "weight"], Some("300")),
                change(&["tenant", "new", "minimum"], Some("5%")),
            ],
        );
        let expected = "\
# the house
[server]
listen = \"unix:/s\" # here

[tenant.gold]
weight = 300 # until Monday

[tenant.new]
minimum = \"5%\"

[device.disk]
attributes = { slice_idle = 0 }
scheduler = \"cfq\"
";
        assert_eq!(told.unwrap(), expected);
    }
}
