//! The process that holds secrets: no core dumps, no tracing by its own user, memory kept out of swap where
//! that is allowed.

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

use super::Failure;
use crate::wire::Code;

/// Whether memory is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// No page of the process goes to swap.
    Locked,
    /// The process may lock only a part of its memory, so none is locked.
    Unlocked,
}

/// Locks the process down. Called once, before a secret is read.
///
/// Memory is locked only where no limit stands: under a limit, locking would not protect more but make an
/// allocation fail in the middle of a release. The caller tells the operator if it is not.
///
/// Errors: `Failure::Usage` if core dumps stay possible.
pub fn lock_down() -> Result<Memory, Failure> {
    let failed = |what: &str, errno: rustix::io::Errno| {
        let (error, code) = (std::io::Error::from(errno), Code::LockdownFailed);
        Failure::Usage(format!("the process cannot be locked down: {what}: {error} ({code})"))
    };
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })
        .map_err(|errno| failed("the limit on core files cannot be set to 0", errno))?;
    // Also for a kernel that pipes core files to a program, where the limit does not count.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|errno| failed("the process cannot be made undumpable", errno))?;
    let limit = getrlimit(Resource::Memlock);
    let freed = || limit.maximum.is_none() && setrlimit(Resource::Memlock, limit_none()).is_ok();
    if limit.current.is_some() && !freed() {
        return Ok(Memory::Unlocked);
    }
    // On fault: what is never touched holds no secret and costs no memory.
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    match mlockall(flags) {
        Ok(()) => Ok(Memory::Locked),
        Err(_) => Ok(Memory::Unlocked),
    }
}

fn limit_none() -> Rlimit {
    Rlimit { current: None, maximum: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_dumps_are_off_afterwards() {
        lock_down().unwrap();
        assert_eq!(getrlimit(Resource::Core), Rlimit { current: Some(0), maximum: Some(0) });
        assert_eq!(rustix::process::dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
        assert!(lock_down().is_ok(), "a second call changes nothing");
    }
}
