// SPDX-License-Identifier: MIT OR Apache-2.0
//! Privileges: switching to a less privileged user, for good.
//!
//! ```text
//! root ──setgroups──▶ ──setgid──▶ ──setuid──▶ user     in this order: only root may do each
//!                                               └─ back to 0? must fail, or nothing is served
//! ```
//!
//! The C library changes all threads of a process at once; the kernel knows only threads. So this
//! goes through the C library. It is done when everything is open that only root may open, and
//! before the first byte of a client is read.

use std::ffi::{CStr, CString};
use std::io;
use std::path::Path;

use crate::config::Server;

/// More groups than any user has (the kernel allows 65,536).
const GROUPS_MAX: usize = 65_536;
/// The longest entry of the user database that is read.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// The user that the server becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The user's name, as requested.
    pub name: String,
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    groups: Vec<u32>,
}

impl Account {
    /// The user that the configuration names, if any.
    ///
    /// # Errors
    /// There is no such user or group, or we may not become another.
    pub fn of(server: &Server) -> Result<Option<Account>, String> {
        let Some(user) = &server.user else { return Ok(None) };
        let account = Account::find(user, server.group.as_deref())?;
        let own = rustix::process::geteuid();
        if !own.is_root() && (own.as_raw(), rustix::process::getegid().as_raw()) != account.ids() {
            let own = own.as_raw();
            return Err(format!(
                "user {user}: only root becomes another, and this is user {own}; start it as root, \
                 or without a user"
            ));
        }
        Ok(Some(account))
    }

    /// The user of this name or number, in that group if it is not to be its own.
    ///
    /// # Errors
    /// There is no such user or group.
    pub fn find(user: &str, group: Option<&str>) -> Result<Account, String> {
        let entry = passwd(user)?;
        let number = user.parse().ok().filter(|uid| *uid != u32::MAX);
        let own_group = entry.map(|(_, gid)| gid).or(number);
        let gid = match group {
            Some(group) => group_number(group)?,
            None => own_group.unwrap_or(u32::MAX),
        };
        let Some(uid) = entry.map(|(uid, _)| uid).or(number) else {
            return Err(format!("user {user}: there is no such user; a name or a number"));
        };
        // A number without an entry has no additional groups.
        let groups = if entry.is_some() { groups_of(user, gid)? } else { vec![gid] };
        Ok(Account { name: user.to_owned(), uid, gid, groups })
    }

    const fn ids(&self) -> (u32, u32) {
        (self.uid, self.gid)
    }

    /// Makes the file theirs, so that they may use and remove it; links are not followed.
    ///
    /// # Errors
    /// The system's error.
    pub fn give(&self, path: &Path) -> io::Result<()> {
        std::os::unix::fs::lchown(path, Some(self.uid), Some(self.gid))
    }

    /// Becomes them for good, in all threads. Done already, it does nothing.
    ///
    /// # Errors
    /// What could not be given up; the caller must not go on then.
    pub fn assume(&self) -> Result<(), String> {
        let told = |what: &str| {
            let error = io::Error::last_os_error();
            format!("user {}: {what}: {error}", self.name)
        };
        if !rustix::process::geteuid().is_root() {
            return self.verify();
        }
        // SAFETY: the pointer is to this many group numbers, which live during the call.
        if unsafe { libc::setgroups(self.groups.len(), self.groups.as_ptr()) } != 0 {
            return Err(told("its groups cannot be taken on"));
        }
        // SAFETY: plain numbers; all three group numbers are set, as root does it.
        if unsafe { libc::setgid(self.gid) } != 0 {
            return Err(told("its group cannot be taken on"));
        }
        // SAFETY: plain numbers; all three user numbers are set, as root does it.
        if unsafe { libc::setuid(self.uid) } != 0 {
            return Err(told("its user number cannot be taken on"));
        }
        self.verify()
    }

    /// The process has the new user and group, and cannot go back.
    fn verify(&self) -> Result<(), String> {
        let (mut uids, mut gids) = ([u32::MAX; 3], [u32::MAX; 3]);
        let [real, effective, saved] = &mut uids;
        // SAFETY: three pointers to live numbers.
        let users = unsafe { libc::getresuid(real, effective, saved) };
        let [real, effective, saved] = &mut gids;
        // SAFETY: three pointers to live numbers.
        let groups = unsafe { libc::getresgid(real, effective, saved) };
        if (users, groups) != (0, 0) || uids != [self.uid; 3] || gids != [self.gid; 3] {
            return Err(format!(
                "user {}: this is user {uids:?}, group {gids:?} instead of {} and {}",
                self.name, self.uid, self.gid
            ));
        }
        // SAFETY: a plain number; were it to succeed, we end.
        if self.uid != 0 && unsafe { libc::setuid(0) } == 0 {
            return Err(format!("user {}: the way back to root is open", self.name));
        }
        Ok(())
    }
}

fn text(name: &str) -> Result<CString, String> {
    CString::new(name).map_err(|_| format!("`{}` is not a name", name.escape_default()))
}

/// Calls a lookup of the user database with a buffer that is large enough.
fn with_buffer(what: &str, mut call: impl FnMut(&mut [libc::c_char]) -> i32) -> Result<(), String> {
    let mut buffer = vec![0; 4096];
    loop {
        match call(&mut buffer) {
            0 => return Ok(()),
            libc::ERANGE if buffer.len() < ENTRY_BYTES_MAX => buffer.resize(buffer.len() * 4, 0),
            // The library has several ways to say that there is none.
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(()),
            error => {
                let error = io::Error::from_raw_os_error(error);
                return Err(format!("{what}: it cannot be looked up: {error}"));
            }
        }
    }
}

/// Numbers of user and group of a name.
fn passwd(user: &str) -> Result<Option<(u32, u32)>, String> {
    let name = text(user)?;
    let mut found = None;
    with_buffer(&format!("user {user}"), |buffer| {
        let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
        let mut result: *mut libc::passwd = std::ptr::null_mut();
        // SAFETY: the name ends with a zero; entry, buffer (of that length) and result are live and
        // ours alone during the call.
        let error = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut result,
            )
        };
        if error == 0 && !result.is_null() {
            // SAFETY: the call says that it has filled the entry; it is still there.
            found = Some(unsafe { ((*result).pw_uid, (*result).pw_gid) });
        }
        error
    })?;
    Ok(found)
}

/// The number of a group's name, or the number itself.
fn group_number(group: &str) -> Result<u32, String> {
    let name = text(group)?;
    let mut found = None;
    with_buffer(&format!("group {group}"), |buffer| {
        let mut entry = std::mem::MaybeUninit::<libc::group>::uninit();
        let mut result: *mut libc::group = std::ptr::null_mut();
        // SAFETY: as in `passwd`.
        let error = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut result,
            )
        };
        if error == 0 && !result.is_null() {
            // SAFETY: the call says that it has filled the entry; it is still there.
            found = Some(unsafe { (*result).gr_gid });
        }
        error
    })?;
    let number = || group.parse().ok().filter(|gid| *gid != u32::MAX);
    let found = found.or_else(number);
    found.ok_or_else(|| format!("group {group}: there is no such group; a name or a number"))
}

/// All groups of a user, `gid` first.
fn groups_of(user: &str, gid: u32) -> Result<Vec<u32>, String> {
    let name = text(user)?;
    let name: &CStr = &name;
    let mut groups = vec![0; 64];
    loop {
        let mut count = i32::try_from(groups.len()).unwrap_or(i32::MAX);
        // SAFETY: the name ends with a zero; there is room for `count` numbers, and both live
        // during the call.
        let done =
            unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        if done >= 0 {
            groups.truncate(usize::try_from(count).unwrap_or(0));
            return Ok(groups);
        }
        if groups.len() >= GROUPS_MAX {
            return Err(format!("user {user}: it is in more than {GROUPS_MAX} groups"));
        }
        groups.resize(groups.len() * 4, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Are users found by name and number, and others refused?
    #[test]
    fn users_are_found() {
        let root = Account::find("root", None).unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        let number = Account::find("54321", None).unwrap();
        assert_eq!((number.uid, number.gid, number.groups), (54321, 54321, vec![54321]));
        let in_group = Account::find("54321", Some("root")).unwrap();
        assert_eq!((in_group.uid, in_group.gid), (54321, 0));
        for user in ["no-such-user-here", "", "4294967295", "-1"] {
            let refusal = Account::find(user, None).unwrap_err();
            assert!(refusal.contains("there is no such user"), "{user}: {refusal}");
        }
        assert!(Account::find("root", Some("no-such-group")).unwrap_err().contains("such group"));
        assert!(Account::find("a\0b", None).unwrap_err().contains("not a name"));
    }

    /// Does switching the user hold for all threads, and is there no way back? (As root only; a
    /// process of its own, this test again, does it.)
    #[test]
    fn there_is_no_way_back() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: there_is_no_way_back: it takes root");
            return;
        }
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.args(["--exact", "host::privileges::tests::become_nobody", "--ignored"]);
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && told.contains("1 passed"), "{told}");
    }

    /// Runs in a process of its own; threads read their user in `/proc`.
    #[test]
    #[ignore = "changes the user of the whole process; the test above runs it"]
    fn become_nobody() {
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            told.recv().unwrap();
            std::fs::read_to_string("/proc/thread-self/status").unwrap()
        });
        let server = Server { user: Some("54321".to_owned()), ..Server::default() };
        let account = Account::of(&server).unwrap().unwrap();
        account.assume().unwrap();
        account.assume().unwrap();
        tell.send(()).unwrap();
        let status = thread.join().unwrap();
        let line = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("Uid:"), "54321 54321 54321 54321");
        assert_eq!(line("Gid:"), "54321 54321 54321 54321");
        assert_eq!(line("Groups:"), "54321");
        assert_eq!(line("CapEff:"), "0000000000000000");
        let other = Server { user: Some("root".to_owned()), ..Server::default() };
        assert!(Account::of(&other).unwrap_err().contains("only root becomes another"));
        assert!(Account::find("root", None).unwrap().assume().is_err());
    }
}
