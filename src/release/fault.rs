//! Named points at which the crash tests stop the process. Without the feature each is nothing.

/// Ends the process at once if this point is the armed one.
#[cfg(feature = "danger-fault-points")]
pub fn point(name: &str) {
    let armed = ARMED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if armed.as_deref() == Some(name) {
        // As a power failure would: no destructor, no flush.
        std::process::abort();
    }
}

/// Does nothing.
#[cfg(not(feature = "danger-fault-points"))]
pub fn point(_: &str) {}

#[cfg(feature = "danger-fault-points")]
static ARMED: std::sync::Mutex<Option<String>> = std::sync::Mutex::new(None);

/// Arms a point.
#[cfg(feature = "danger-fault-points")]
pub fn arm(name: &str) {
    *ARMED.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(name.to_string());
}

/// The points, in the order of the stair.
#[cfg(feature = "danger-fault-points")]
pub const POINTS: [&str; 5] = ["before-t1", "after-t1", "after-unwrap", "during-t2", "after-t2"];
