// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the sandbox: what is forbidden is tried, in a child process.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind::PermissionDenied;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Output};

use rustix::io::Errno;
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::super::scratch::Scratch;
use super::*;
use crate::config::{Device, Listen, Volume};
use crate::host::plain_file;

const CHILD: &str = "PATERNOSTER_TEST_SANDBOX";
const PORT: &str = "PATERNOSTER_TEST_SANDBOX_PORT";

/// A server of two images in a folder, the second one read-only.
fn config(folder: &Path) -> Config {
    let mut device = Device::new("disk");
    let second = Volume::new("second", folder.join("second"));
    device.volumes =
        vec![Volume::new("image", folder.join("image")), Volume { readonly: true, ..second }];
    let mut config = Config { devices: vec![device], ..Config::default() };
    let socket = format!("unix:{}", folder.join("run/s").display());
    config.server.image_folders = vec![folder.join("images")];
    config.server.listen = vec![Listen::new(socket.parse().unwrap(), false)];
    config
}

fn in_a_child(test: &str, folder: &Scratch, port: u16) -> Output {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("host::sandbox::tests::{test}"), "--nocapture"]);
    child.env(CHILD, folder.path("")).env(PORT, port.to_string()).output().unwrap()
}

fn is_refused<T>(tried: std::io::Result<T>) -> bool {
    tried.is_err_and(|error| error.kind() == PermissionDenied)
}

/// What the child of [`files_and_ports`] does; nothing otherwise.
#[test]
fn files_as_a_child() {
    let Some(folder) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let port: u16 = std::env::var(PORT).unwrap().parse().unwrap();
    let path = |name: &str| folder.join(name);
    let sandbox = Sandbox { reads: vec![path("etc")], ..Sandbox::default() };
    let missing = sandbox.bound_files(&config(&folder), Some(&path("records/x")));
    if let Some(missing) = missing {
        return println!("skipped: {missing}");
    }
    let write = |name: &str| OpenOptions::new().write(true).open(path(name));
    // In another thread than the one that was bounded: threads started later are bounded, too.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            write("image").unwrap();
            File::open(path("second")).unwrap();
            assert!(is_refused(write("second")), "a read-only image");
            write("images/later").unwrap();
            assert!(is_refused(File::create(path("images/new"))), "none is made there");
            assert!(is_refused(fs::remove_file(path("images/later"))));
            assert_eq!(fs::read(path("etc/serve.toml")).unwrap(), b"text");
            assert!(is_refused(fs::write(path("etc/serve.toml"), "")), "only read");
            for secret in [path("secret"), "/etc/passwd".into()] {
                assert!(is_refused(File::open(&secret)), "{}", secret.display());
            }
            assert!(is_refused(File::create(path("new"))));
            assert!(is_refused(fs::read_dir(&folder)));
            assert!(is_refused(fs::remove_file(path("secret"))));
            assert!(is_refused(fs::rename(path("image"), path("run/image"))));
            assert!(is_refused(std::os::unix::fs::symlink(path("secret"), path("run/link"))));
            plain_file::create(&path("records/x.disk.decisions")).unwrap();
            let told = plain_file::create(&path("x.blktrace.0")).unwrap_err().to_string();
            assert!(told.contains("`sandbox = false` is without"), "{told}");
            UnixListener::bind(path("run/s")).unwrap();
            fs::remove_file(path("run/s")).unwrap();
            fs::read_to_string("/proc/self/cgroup").unwrap();
            assert!(is_refused(TcpListener::bind("127.0.0.1:0")), "a port");
            assert!(is_refused(TcpStream::connect(("127.0.0.1", port))), "a peer");
            let parent = rustix::process::getppid().unwrap();
            assert_eq!(rustix::process::test_kill_process(parent), Err(Errno::PERM));
        });
    });
    println!("all was tried");
}

/// Are only files opened that are configured, no port, and are new ones told of in words?
#[test]
fn files_and_ports() {
    let folder = Scratch::new();
    for name in ["image", "second", "secret"] {
        fs::write(folder.path(name), "data").unwrap();
    }
    for name in ["run", "records", "etc", "images"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    fs::write(folder.path("images/later"), "data").unwrap();
    fs::write(folder.path("etc/serve.toml"), "text").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let output = in_a_child("files_as_a_child", &folder, listener.local_addr().unwrap().port());
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told} {}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("all was tried") || told.contains("skipped: "), "{told}");
}

/// What the child of [`calls_of_no_server`] does; nothing otherwise.
#[test]
fn calls_as_a_child() {
    let Some(folder) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    // A thread that was there before, which is bounded, too.
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let path = folder.join("image");
    let before = std::thread::spawn(move || {
        gone.recv().unwrap();
        try_calls(&path);
    });
    if let Some(missing) = Sandbox::default().bound_calls(false) {
        return println!("skipped: {missing}");
    }
    go.send(()).unwrap();
    before.join().unwrap();
    std::thread::spawn(move || try_calls(&folder.join("image"))).join().unwrap();
    println!("all was tried");
}

fn try_calls(image: &Path) {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(status.contains("NoNewPrivs:\t1\n") && status.contains("Seccomp:\t2\n"), "{status}");
    assert!(is_refused(Command::new("/bin/true").status()), "a program");
    assert!(is_refused(TcpStream::connect("127.0.0.1:1")), "a socket of TCP");
    UnixStream::pair().unwrap();
    assert!(UnixStream::connect("/nowhere").is_err_and(|it| it.kind() != PermissionDenied));
    assert!(is_refused(io_uring::IoUring::new(2)), "a ring that nothing binds");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    assert!(is_refused(fs::set_permissions(image, mode)), "rights of a file");
    let parent = rustix::process::getppid().unwrap();
    assert_eq!(rustix::process::test_kill_process(parent), Err(Errno::PERM));
    let own = rustix::process::getpid();
    assert_eq!(rustix::process::test_kill_process(own), Ok(()));
    let unmounted = rustix::mount::unmount("/proc", rustix::mount::UnmountFlags::DETACH);
    assert_eq!(unmounted, Err(Errno::PERM));
    let call = |number: i64, first: i64, third: i64| {
        // SAFETY: numbers only; the kernel refuses each before it looks at them. Were one done, the
        // worst is memory that nothing uses.
        let done =
            unsafe { libc::syscall(number, first, 4096_i64, third, 0x22_i64, -1_i64, 0_i64) };
        (done == -1).then(|| std::io::Error::last_os_error().raw_os_error().unwrap())
    };
    let code = i64::from(libc::PROT_READ | libc::PROT_EXEC);
    for (number, first, third, what) in [
        (libc::SYS_mmap, 0, code, "memory that is code"),
        (libc::SYS_mprotect, 0, code, "memory that becomes code"),
        (libc::SYS_clone, 0, 0, "a process"),
        (libc::SYS_unshare, i64::from(libc::CLONE_NEWUSER), 0, "a name space"),
        (libc::SYS_setuid, 0, 0, "a user"),
        (libc::SYS_ptrace, 0, 0, "another process"),
        (libc::SYS_bpf, 0, 0, "a program of the kernel's"),
        (libc::SYS_socket, i64::from(libc::AF_NETLINK), 0, "a socket of another kind"),
        (libc::SYS_open_by_handle_at, -1, 0, "a file without its path"),
    ] {
        assert_eq!(call(number, first, third), Some(libc::EPERM), "{what}");
    }
    #[cfg(target_arch = "x86_64")]
    for number in [520, libc::SYS_socket, libc::SYS_io_uring_setup] {
        assert_eq!(call(number | 0x4000_0000, 2, 0), Some(libc::EPERM), "x32 {number}");
    }
}

/// Are calls refused that a server never makes, in threads of before and later, by whichever
/// number; and does what it makes work?
#[test]
fn calls_of_no_server() {
    let folder = Scratch::new();
    fs::write(folder.path("image"), "data").unwrap();
    let output = in_a_child("calls_as_a_child", &folder, 0);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told} {}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("all was tried") || told.contains("skipped: "), "{told}");
}

/// What the child of [`an_older_kernel`] does; nothing otherwise.
#[test]
fn an_older_kernel_as_a_child() {
    let Some(folder) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let lacks = |calls: &[(i64, Vec<SeccompRule>)], errno: i32| {
        let rules = calls.iter().cloned().collect();
        let refused = SeccompAction::Errno(errno.cast_unsigned());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).unwrap();
        seccompiler::apply_filter(&seccompiler::BpfProgram::try_from(filter).unwrap()).unwrap();
    };
    let is = |at, value: i32| {
        let value = u64::from(value.cast_unsigned());
        SeccompCondition::new(at, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value).unwrap()
    };
    let option = SeccompRule::new(vec![is(2, libc::SO_PEERPIDFD)]).unwrap();
    lacks(&[(libc::SYS_getsockopt, vec![option])], libc::ENOPROTOOPT);
    lacks(&[(libc::SYS_landlock_create_ruleset, vec![])], libc::ENOSYS);
    let missing = Sandbox::default().bound_files(&config(&folder), None).unwrap();
    assert!(missing.contains("no Landlock"), "{missing}");
    File::open(folder.join("image")).unwrap();
    // A peer's cgroup is as good as its number there, and the log says so, once.
    let (one, _other) = UnixStream::pair().unwrap();
    for _ in 0..2 {
        let who = crate::host::peer::of_unix(&one, Path::new("/proc")).unwrap();
        assert!(who.cgroup.is_some());
    }
    // A ring that cannot be restricted (before Linux 5.10) serves all the same.
    const REGISTER_RESTRICTIONS: i32 = 11;
    let restrictions = SeccompRule::new(vec![is(1, REGISTER_RESTRICTIONS)]).unwrap();
    let mut device = config(&folder).devices.remove(0);
    device.engine = crate::config::Engine::Uring;
    device.volumes.truncate(1);
    let has_ring = crate::device::open::open(&device).is_ok();
    lacks(&[(libc::SYS_io_uring_register, vec![restrictions])], libc::EINVAL);
    if has_ring {
        crate::device::open::open(&device).expect("a ring without restrictions");
        println!("a ring was tried");
    } else {
        println!("skipped: a ring without restrictions: there is no io_uring here");
    }
    lacks(&[(libc::SYS_seccomp, vec![])], libc::ENOSYS);
    let missing = Sandbox::default().bound_calls(false).unwrap();
    assert!(missing.contains("calls are not bounded"), "{missing}");
    crate::log::settle(std::time::Duration::from_secs(10));
    println!("all was tried");
}

/// Is there a line for each thing that the kernel lacks (Landlock, seccomp, SO_PEERPIDFD,
/// restrictions of io_uring), and does
/// the server go on? A filter lets the calls fail as an older kernel does.
#[test]
fn an_older_kernel() {
    let folder = Scratch::new();
    fs::write(folder.path("image"), "data").unwrap();
    let output = in_a_child("an_older_kernel_as_a_child", &folder, 0);
    let (told, log) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && told.contains("all was tried"), "{told} {log}");
    assert_eq!(log.matches("does not tell a client's process for certain").count(), 1, "{log}");
    let unbounded = "sandbox: io_uring is not restricted to reading and writing: Invalid argument";
    let rings = usize::from(told.contains("a ring was tried"));
    assert_eq!(log.matches(unbounded).count(), rings, "{told} {log}");
}
