//! Prefetches memory that will be needed soon. The one `unsafe` block is a hint to the processor.
#![allow(unsafe_code)]

/// Prefetches the cache line of an address, and does not wait for it. Any address is allowed; the only
/// effect is on time.
#[inline(always)]
pub fn fetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing, and faults at no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    let _ = place;
}
