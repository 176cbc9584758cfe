//! The memory of the program. musl's allocator returns the pages of small blocks to the kernel
//! after each job and maps new ones for the next job: a fifth of a job's cost. dlmalloc keeps these
//! pages for the next job.
//!
//! dlmalloc would keep them for good, because the kernel hands out addresses downwards and dlmalloc
//! returns memory at the upper end only. So dlmalloc gets one bounded range of addresses, the arena
//! (`os::arena`), which is handed out upwards. musl serves large blocks, and blocks for which the
//! arena has no room. The address of a block shows which allocator owns it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::arena::{self, ARENA_BYTES, Arena, Small};

/// Size in bytes from which musl serves a block: musl returns the block to the kernel when it is
/// freed. So the memory of a large envelope does not stay with process 1.
const LARGE: usize = 64 * 1024;

/// The small blocks. The standard library's lock allocates nothing, and costs a third of musl's
/// lock, which dlmalloc locks by default.
static SMALL: Mutex<Small> = Mutex::new(Small::new(Arena::new(ARENA_BYTES)));

/// The allocator of ojs-init's binary.
#[derive(Debug)]
pub struct Allocator;

/// The small blocks, for one call. The code that holds the lock never panics: the panic message
/// needs memory, so the thread would wait for its own lock.
fn small() -> MutexGuard<'static, Small> {
    SMALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether much of the memory of small blocks is free now, so that a later call of
/// [`return_unneeded`] may return it.
pub fn has_unneeded() -> bool {
    small().has_unneeded()
}

/// Returns the memory of small blocks to the kernel that was free ever since the last call, if it
/// is much. Returns whether much is free that was not free all the time.
pub fn return_unneeded() -> bool {
    small().return_unneeded()
}

fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE
}

// SAFETY: each block is returned to the allocator that allocated it, which its address shows, and
// both allocators keep the promises of `GlobalAlloc`.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !is_large(layout) {
            let block = small().take(layout);
            if !block.is_null() {
                return block;
            }
        }
        // SAFETY: the caller's promises are those that are asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !is_large(layout) {
            let block = small().take(layout);
            if !block.is_null() {
                // The lock is already free here.
                // SAFETY: a block of this size, which no other code uses.
                unsafe { ptr::write_bytes(block, 0, layout.size()) };
                return block;
            }
        }
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller promises that it is a block of this allocator with this layout; its
        // address shows which of the two allocators owns it.
        unsafe {
            if arena::has(block) {
                small().give_back(block, layout);
            } else {
                System.dealloc(block, layout);
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that `new_size`, rounded up to the alignment, does not
        // overflow.
        let wanted = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: as in `dealloc`. If the block moves, both blocks have room for the copied bytes,
        // and they do not overlap; without a new block the old one stays unchanged.
        unsafe {
            match (arena::has(block), is_large(wanted)) {
                (true, false) => {
                    let resized = small().resize(block, layout, new_size);
                    if !resized.is_null() {
                        return resized;
                    }
                }
                (false, true) => return System.realloc(block, layout, new_size),
                (true, true) | (false, false) => {}
            }
            let moved = self.alloc(wanted);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::arena::EBB_BYTES;

    /// Sizes on both sides of the threshold, and at it.
    const SIZES: [usize; 8] = [1, 100, 4096, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE, 40 * LARGE];

    /// One arena serves all tests, so only one test at a time may check its totals.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks of this size until the arena has no room for one, and one of musl's.
    fn fill(size: usize) -> (Vec<*mut u8>, *mut u8) {
        let mut blocks = Vec::new();
        loop {
            // SAFETY: the size is not zero.
            let block = unsafe { Allocator.alloc(layout(size, 8)) };
            assert!(!block.is_null());
            if !arena::has(block) {
                return (blocks, block);
            }
            assert!(blocks.len() < ARENA_BYTES / size);
            blocks.push(block);
        }
    }

    /// Pages of the arena that are in memory.
    fn resident(block: *mut u8) -> usize {
        let mut pages = vec![0_u8; ARENA_BYTES / 4096];
        let base = block.with_addr(block.addr() - arena::offset(block));
        // SAFETY: the range is mapped, and there is a byte for each of its pages.
        let result = unsafe { libc::mincore(base.cast(), ARENA_BYTES, pages.as_mut_ptr()) };
        assert_eq!(result, 0);
        pages.iter().filter(|page| **page & 1 == 1).count()
    }

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    /// The mark in a block at each place, which shows a mix-up.
    fn mark(size: usize, at: usize) -> u8 {
        u8::try_from((size ^ (at * 31)) & 0xff).unwrap()
    }

    #[test]
    fn a_block_keeps_what_is_in_it_whatever_size_it_gets() {
        let _alone = alone();
        for align in [1, 8, 64, 4096] {
            for from in SIZES {
                for to in SIZES {
                    // SAFETY: the block is used within its size, and freed once, with its own
                    // layout.
                    unsafe {
                        let block = Allocator.alloc(layout(from, align));
                        assert!(!block.is_null() && block.addr().is_multiple_of(align));
                        (0..from).for_each(|at| block.add(at).write(mark(from, at)));
                        let moved = Allocator.realloc(block, layout(from, align), to);
                        assert!(!moved.is_null() && moved.addr().is_multiple_of(align));
                        assert!(
                            (0..from.min(to)).all(|at| moved.add(at).read() == mark(from, at)),
                            "{from} to {to}"
                        );
                        Allocator.dealloc(moved, layout(to, align));
                    }
                }
            }
        }
    }

    #[test]
    fn zeroed_blocks_are_zero_also_where_another_block_was() {
        let _alone = alone();
        for size in SIZES {
            for _ in 0..3 {
                // SAFETY: as above.
                unsafe {
                    let block = Allocator.alloc_zeroed(layout(size, 8));
                    assert!((0..size).all(|at| block.add(at).read() == 0), "{size}");
                    ptr::write_bytes(block, 0xff, size);
                    Allocator.dealloc(block, layout(size, 8));
                }
            }
        }
    }

    #[test]
    fn threads_get_blocks_of_their_own() {
        let _alone = alone();
        thread::scope(|scope| {
            for number in 0..4_u8 {
                scope.spawn(move || {
                    for round in 0..2_000 {
                        let size = SIZES[round % 5];
                        // SAFETY: as above.
                        unsafe {
                            let block = Allocator.alloc(layout(size, 8));
                            ptr::write_bytes(block, number, size);
                            let grown = Allocator.realloc(block, layout(size, 8), size + 100);
                            assert!((0..size).all(|at| grown.add(at).read() == number));
                            Allocator.dealloc(grown, layout(size + 100, 8));
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn what_the_arena_has_no_room_for_is_musls_and_goes_from_one_to_the_other_with_what_is_in_it() {
        let _alone = alone();
        let (size, larger) = (LARGE - 64, LARGE - 32);
        let (mut blocks, other) = fill(size);
        // SAFETY: each block is used within its size, and freed once, with its own layout.
        unsafe {
            let first = blocks.remove(0);
            (0..size).for_each(|at| first.add(at).write(mark(1, at)));
            (0..size).for_each(|at| other.add(at).write(mark(2, at)));
            let first = Allocator.realloc(first, layout(size, 8), larger);
            assert!(!arena::has(first), "there is room for it");
            for block in blocks {
                Allocator.dealloc(block, layout(size, 8));
            }
            let other = Allocator.realloc(other, layout(size, 8), larger);
            assert!(arena::has(other), "it stays outside");
            for (block, seed) in [(first, 1), (other, 2)] {
                assert!((0..size).all(|at| block.add(at).read() == mark(seed, at)), "{seed}");
                Allocator.dealloc(block, layout(larger, 8));
            }
        }
    }

    #[test]
    fn what_many_blocks_took_goes_back_also_from_between_those_that_stay() {
        let _alone = alone();
        let (size, stays) = (60_000, layout(64, 8));
        let pages = |bytes: usize| bytes / 4096;
        // SAFETY: as above.
        unsafe {
            let blocks: Vec<_> = (0..64)
                .map(|_| {
                    let block = Allocator.alloc(layout(size, 8));
                    ptr::write_bytes(block, 1, size);
                    (block, Allocator.alloc(stays))
                })
                .collect();
            let most = resident(blocks[0].0);
            assert!(most > pages(63 * size), "{most} pages");
            blocks
                .iter()
                .for_each(|(block, _)| Allocator.dealloc(*block, layout(size, 8)));
            let left = resident(blocks[0].1);
            assert!(left < pages(EBB_BYTES) + most / 4, "{left} of {most} pages");
            blocks.iter().for_each(|(_, block)| Allocator.dealloc(*block, stays));
        }
    }

    #[test]
    fn what_a_burst_took_goes_back_after_two_calls_without_another_burst() {
        let _alone = alone();
        // Other tests had bursts too.
        while return_unneeded() {}
        let (size, stays) = (60_000, layout(64, 8));
        let mut kept = Vec::new();
        // Less than what goes back at once.
        let mut burst = || {
            // SAFETY: as above.
            unsafe {
                let blocks = [(); 8].map(|()| (Allocator.alloc(layout(size, 8)), Allocator.alloc(stays)));
                for (block, between) in blocks {
                    ptr::write_bytes(block, 1, size);
                    kept.push(between);
                }
                let most = resident(blocks[0].1);
                for (block, _) in blocks {
                    Allocator.dealloc(block, layout(size, 8));
                }
                (blocks[0].1, most)
            }
        };
        let (block, most) = burst();
        assert!(return_unneeded());
        burst();
        assert!(return_unneeded(), "the second burst was since the last call");
        assert!(resident(block) >= most, "it may soon be needed again");
        assert!(!return_unneeded());
        let left = resident(block);
        assert!(left < most / 4, "{left} of {most} pages");
        // SAFETY: as above.
        unsafe { kept.iter().for_each(|block| Allocator.dealloc(*block, stays)) };
    }

    #[test]
    fn a_block_that_comes_back_with_another_size_is_no_panic_that_waits_for_its_own_lock() {
        let _alone = alone();
        // SAFETY: this misuse is the subject of the test; the sizes of the arena's blocks are only
        // counted.
        unsafe {
            let block = Allocator.alloc(layout(100, 8));
            assert!(arena::has(block));
            let block = Allocator.realloc(block, layout(3000, 8), 200);
            assert!(arena::has(block));
            Allocator.dealloc(block, layout(3000, 8));
        }
    }
}
