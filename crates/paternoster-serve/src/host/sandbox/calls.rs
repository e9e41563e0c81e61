// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that a server never makes once it serves, by seccomp: they fail with EPERM.
//!
//! A list of what is refused, not of what is allowed: another C library, or the next version of
//! this one, makes other harmless calls. What is on it: starting programs and processes, memory
//! that is code, new rings of io_uring, sockets but unix ones, other processes, users and rights,
//! mounts, modules, the kernel's own affairs. Files are `files.rs`'s business.
//!
//! `clone3` has its flags in memory, where a filter cannot look: it "does not exist" (ENOSYS), and
//! the C library uses `clone`, which may make threads. On x86-64 every call has a second number
//! (x32), which is refused altogether.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused whatever its arguments.
const NEVER: &[i64] = &[
    // Programs and memory of others.
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kcmp,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_memfd_create,
    libc::SYS_userfaultfd,
    // Rings that nothing binds, and the kernel's older ones.
    libc::SYS_io_uring_setup,
    libc::SYS_io_setup,
    libc::SYS_io_submit,
    // Users and rights.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_mknodat,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Name spaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    // The kernel's own affairs.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_personality,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
];

/// Calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const NEVER_OF_OLD: &[i64] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_mknod,
    libc::SYS_uselib,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_kexec_file_load,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_OF_OLD: &[i64] = &[];

/// Takes these calls from all threads of the process.
pub(super) fn bound(unmounts: bool) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| format!("sandbox: calls are not bounded: {error}");
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| told(&error))?;
    let refused = refused(unmounts).map_err(|error| told(&error))?;
    let unknown = Rules::from([(libc::SYS_clone3, Vec::new())]);
    for (rules, errno) in [(refused, libc::EPERM), (unknown, libc::ENOSYS)] {
        let action = SeccompAction::Errno(errno.cast_unsigned());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch);
        let filter = filter.and_then(BpfProgram::try_from).map_err(|error| told(&error))?;
        apply_filter_all_threads(&filter).map_err(|error| told(&error))?;
    }
    Ok(())
}

/// The system calls that are refused. A server that unmounts through a helper program has to start
/// it.
fn refused(unmounts: bool) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = NEVER.iter().chain(NEVER_OF_OLD).map(|&call| (call, vec![])).collect();
    let is = |at, op, value| SeccompCondition::new(at, SeccompCmpArgLen::Dword, op, value);
    let has = |at, flag: u64| is(at, SeccompCmpOp::MaskedEq(flag), flag);
    let lacks = |at, flag: u64| is(at, SeccompCmpOp::MaskedEq(flag), 0);
    let number = |value: libc::c_int| u64::from(value.cast_unsigned());
    let one = |condition| Ok(vec![SeccompRule::new(vec![condition?])?]);
    let helper = unmounts && !rustix::process::geteuid().is_root();
    if !helper {
        rules.insert(libc::SYS_execve, vec![]);
        // A process is none of our threads.
        rules.insert(libc::SYS_clone, one(lacks(0, number(libc::CLONE_THREAD)))?);
    }
    if !unmounts {
        rules.insert(libc::SYS_umount2, vec![]);
    }
    let own = u64::from(std::process::id());
    for call in [libc::SYS_kill, libc::SYS_tgkill] {
        rules.insert(call, one(is(0, SeccompCmpOp::Ne, own))?);
    }
    rules.insert(libc::SYS_socket, one(is(0, SeccompCmpOp::Ne, number(libc::AF_UNIX)))?);
    for call in [libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_pkey_mprotect] {
        rules.insert(call, one(has(2, number(libc::PROT_EXEC)))?);
    }
    #[cfg(target_arch = "x86_64")]
    {
        // x32: the same calls with this bit, and some of its own from 512 on.
        const X32: i64 = 0x4000_0000;
        let own: Vec<i64> = rules.keys().copied().chain(512..=547).collect();
        rules.extend(own.into_iter().map(|call| (call | X32, vec![])));
        rules.insert(libc::SYS_clone3 | X32, vec![]);
    }
    Ok(rules)
}
