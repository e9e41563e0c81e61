// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terminal: single keys, lines drawn in place, everything restored at the end.
//!
//! Line input and echo are switched off (Ctrl-C arrives as a key), the alternate screen on, and the
//! cursor hidden. All of it is undone when the terminal is dropped, after an error too. SIGTERM and
//! SIGHUP end the view like `q`.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGTERM};

use super::frame::Line;

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Connections,
    Left,
    Right,
    Up,
    Down,
}

/// A terminal under our control.
pub(super) struct Terminal {
    before: Termios,
    /// Read and not used.
    keys: Vec<Key>,
    ended: Arc<AtomicBool>,
}

impl Terminal {
    pub(super) fn open() -> io::Result<Terminal> {
        let ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&ended))?;
        }
        let before = tcgetattr(io::stdin())?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
        let terminal = Terminal { before, keys: Vec::new(), ended };
        write("\x1b[?1049h\x1b[?25l")?;
        Ok(terminal)
    }

    /// Columns and lines.
    pub(super) fn size(&self) -> (u16, u16) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
            _ => (80, 24),
        }
    }

    /// Draws lines from the top, and nothing below them.
    pub(super) fn draw(&self, lines: &[Line]) -> io::Result<()> {
        write(&painted(lines))
    }

    /// The next key, if one comes before `deadline`; may return without one earlier.
    pub(super) fn key(&mut self, deadline: Instant) -> io::Result<Option<Key>> {
        if self.keys.is_empty() {
            self.read(deadline)?;
        }
        if self.ended.load(Ordering::Relaxed) {
            return Ok(Some(Key::Quit));
        }
        Ok((!self.keys.is_empty()).then(|| self.keys.remove(0)))
    }

    fn read(&mut self, deadline: Instant) -> io::Result<()> {
        let input = io::stdin();
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&input, PollFlags::IN)], left.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 64];
        match rustix::io::read(&input, &mut bytes) {
            // The terminal is gone.
            Ok(0) => self.keys.push(Key::Quit),
            Ok(count) => self.keys.extend(keys(&bytes[..count])),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = write("\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Lines for a terminal: each over the previous one, headings bold.
fn painted(lines: &[Line]) -> String {
    let mut text = String::from("\x1b[H");
    for (place, line) in lines.iter().enumerate() {
        let (on, off) = if line.strong { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let end = if place + 1 == lines.len() { "" } else { "\r\n" };
        text = text + on + &line.text + off + "\x1b[K" + end;
    }
    text + "\x1b[J"
}

/// Keys in a terminal's input; other input is skipped.
fn keys(bytes: &[u8]) -> Vec<Key> {
    let (mut keys, mut rest) = (Vec::new(), bytes);
    while let [first, more @ ..] = rest {
        rest = more;
        let key = match (first, more) {
            (b'q' | b'Q' | 3, _) => Some(Key::Quit),
            (b'c' | b'C', _) => Some(Key::Connections),
            (0x1b, [b'[' | b'O', arrow, behind @ ..]) => {
                rest = behind;
                match arrow {
                    b'A' => Some(Key::Up),
                    b'B' => Some(Key::Down),
                    b'C' => Some(Key::Right),
                    b'D' => Some(Key::Left),
                    _ => None,
                }
            }
            _ => None,
        };
        keys.extend(key);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are keys recognised in a terminal's input?
    #[test]
    fn bytes_become_keys() {
        let all = keys(b"x\x1b[A\x1bOB\x1b[C\x1b[Dc\x1b[Zq\x03\x1b");
        let expected =
            [Key::Up, Key::Down, Key::Right, Key::Left, Key::Connections, Key::Quit, Key::Quit];
        assert_eq!(all, expected);
    }

    /// Is the previous frame drawn over?
    #[test]
    fn lines_are_painted() {
        let line = |text: &str, strong| Line { text: text.to_owned(), strong };
        let text = painted(&[line("a", true), line("b", false)]);
        assert_eq!(text, "\x1b[H\x1b[1ma\x1b[0m\x1b[K\r\nb\x1b[K\x1b[J");
    }
}
