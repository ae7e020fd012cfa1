//! Locks whose holders change what is under them in one step.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock even after a panic, because a panic elsewhere cannot have left half a change under it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
