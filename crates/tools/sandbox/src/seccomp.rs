//! System calls that no command needs and that reach outside of a sandbox.
//!
//! Decision: a command may be any program, so calls are allowed unless they are listed here: those
//! that change namespaces and mounts, load code into the kernel, share keys of the user, put input
//! into a terminal, or open sockets that a view does not grant. A denied call fails with `EPERM`.

use std::{collections::BTreeMap, env::consts::ARCH};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare,
    SeccompCondition as Condition, SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

/// Calls that are denied with all arguments.
const DENIED: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Calls that a parser does not need, in addition to [`DENIED`].
const NOT_FOR_READERS: &[libc::c_long] = &[
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_kill,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_tkill,
];

/// The same, where an architecture has older calls beside them.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_creat,
    libc::SYS_fork,
    libc::SYS_open,
    libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Flags of `clone` that create namespaces. (`CLONE_NEWTIME` is not a flag of `clone`.)
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// `ioctl` requests that put input into a terminal.
const TERMINAL_INPUT: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// Bit of the calls of the x32 ABI, which share the architecture of `x86_64`.
const X32: i64 = 0x4000_0000;

/// Sockets that a command may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sockets {
    /// All. Namespaces decide what they reach.
    All,
    /// Those of the internet.
    Internet,
    /// None, except pairs.
    None,
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Applies the filter to this process and all that it starts.
///
/// # Errors
/// Returns an error if the kernel or the architecture has no filters.
pub(crate) fn confine(sockets: Sockets) -> Result<(), String> {
    let mut rules = Rules::new();
    for call in DENIED {
        rules.insert(*call, Vec::new());
    }
    let conditions = NAMESPACES
        .iter()
        .map(|flag| mask(0, u64::try_from(*flag).unwrap_or_default()));
    rules.insert(libc::SYS_clone, any(conditions)?);
    let requests = TERMINAL_INPUT.iter().map(|request| equal(1, *request));
    rules.insert(libc::SYS_ioctl, any(requests)?);
    match sockets {
        Sockets::All => {}
        Sockets::None => {
            rules.insert(libc::SYS_socket, Vec::new());
        }
        Sockets::Internet => {
            let other = |domain: i32| not_equal(0, u64::try_from(domain).unwrap_or_default());
            let neither = vec![other(libc::AF_INET)?, other(libc::AF_INET6)?];
            rules.insert(
                libc::SYS_socket,
                vec![SeccompRule::new(neither).map_err(text)?],
            );
        }
    }
    apply(rules, libc::EPERM)?;
    without_clone3()
}

/// Denies this process and its threads all calls that open, start or signal something.
///
/// # Errors
/// Returns an error if the kernel or the architecture has no filters.
pub(crate) fn confine_reader() -> Result<(), String> {
    let denied = [DENIED, NOT_FOR_READERS, OLDER].into_iter().flatten();
    let mut rules: Rules = denied.map(|call| (*call, Vec::new())).collect();
    let thread = u64::try_from(libc::CLONE_THREAD).unwrap_or_default();
    let new_process =
        Condition::new(0, Length::Qword, Compare::MaskedEq(thread), 0).map_err(text)?;
    rules.insert(
        libc::SYS_clone,
        vec![SeccompRule::new(vec![new_process]).map_err(text)?],
    );
    apply(rules, libc::EPERM)?;
    without_clone3()
}

fn without_clone3() -> Result<(), String> {
    // Its flags are in memory, where a filter cannot read them. Without it, libc uses `clone`.
    apply(Rules::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)
}

fn apply(mut rules: Rules, errno: i32) -> Result<(), String> {
    let architecture: TargetArch = ARCH.try_into().map_err(text)?;
    if ARCH == "x86_64" {
        let x32: Rules = rules
            .iter()
            .map(|(call, rules)| (call | X32, rules.clone()))
            .collect();
        rules.extend(x32);
    }
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno.unsigned_abs()),
        architecture,
    )
    .map_err(text)?;
    let program: BpfProgram = filter.try_into().map_err(text)?;
    apply_filter(&program).map_err(text)
}

/// Returns one rule for each condition: any of them is enough.
fn any(
    conditions: impl Iterator<Item = Result<Condition, String>>,
) -> Result<Vec<SeccompRule>, String> {
    conditions
        .map(|condition| SeccompRule::new(vec![condition?]).map_err(text))
        .collect()
}

fn mask(argument: u8, bits: u64) -> Result<Condition, String> {
    Condition::new(argument, Length::Qword, Compare::MaskedEq(bits), bits).map_err(text)
}

fn equal(argument: u8, value: u64) -> Result<Condition, String> {
    // The kernel reads 32 bits of such an argument, so the upper ones must not hide it.
    Condition::new(argument, Length::Dword, Compare::Eq, value).map_err(text)
}

fn not_equal(argument: u8, value: u64) -> Result<Condition, String> {
    Condition::new(argument, Length::Dword, Compare::Ne, value).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    format!("no filter of system calls: {error}")
}
