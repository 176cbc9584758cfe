//! Where the program's memory comes from. Of small blocks that come and go with each job musl's allocator gives the page back and
//! takes another one, again and again: a fifth of what a job cost. dlmalloc keeps such pages for the next job.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlmalloc::Dlmalloc;

/// From this size on, in bytes, a block is musl's: it goes back to the kernel when it is freed. What large envelopes took for a moment
/// belongs to the worker again, and does not stay with process 1.
const LARGE: usize = 64 * 1024;

/// The small blocks. The standard library's lock allocates nothing, and costs a third of musl's, which dlmalloc takes by itself.
static SMALL: Mutex<Dlmalloc> = Mutex::new(Dlmalloc::new());

/// The allocator of ojs-init's binary.
#[derive(Debug)]
pub struct Allocator;

/// The small blocks, for one call. What holds them never panics.
fn small() -> MutexGuard<'static, Dlmalloc> {
    SMALL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE
}

// SAFETY: each block is given back to the allocator that it came from, which its layout tells, and both keep the promises of
// `GlobalAlloc`.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that are asked for here.
        unsafe {
            if is_large(layout) {
                System.alloc(layout)
            } else {
                small().malloc(layout.size(), layout.align())
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        unsafe {
            if is_large(layout) {
                System.alloc_zeroed(layout)
            } else {
                small().calloc(layout.size(), layout.align())
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the layout is that of the allocation, so it is the same allocator.
        unsafe {
            if is_large(layout) {
                System.dealloc(block, layout);
            } else {
                small().free(block, layout.size(), layout.align());
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that `new_size`, rounded up to the alignment, does not overflow.
        let wanted = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: as in `dealloc`. Where it moves to the other allocator, both blocks have room for what is copied, and they do not
        // overlap; without a new block the old one stays as it is.
        unsafe {
            match (is_large(layout), is_large(wanted)) {
                (true, true) => System.realloc(block, layout, new_size),
                (false, false) => small().realloc(block, layout.size(), layout.align(), new_size),
                (true, false) | (false, true) => {
                    let moved = self.alloc(wanted);
                    if !moved.is_null() {
                        ptr::copy_nonoverlapping(block, moved, layout.size().min(new_size));
                        self.dealloc(block, layout);
                    }
                    moved
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Sizes on both sides of the threshold, and at it.
    const SIZES: [usize; 8] = [1, 100, 4096, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE, 40 * LARGE];

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    /// What stands in a block at each place, so that a mix-up is seen.
    fn mark(size: usize, at: usize) -> u8 {
        u8::try_from((size ^ (at * 31)) & 0xff).unwrap()
    }

    #[test]
    fn a_block_keeps_what_is_in_it_whatever_size_it_gets() {
        for align in [1, 8, 64, 4096] {
            for from in SIZES {
                for to in SIZES {
                    // SAFETY: the block is used within its size, and freed once, with its own layout.
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
}
