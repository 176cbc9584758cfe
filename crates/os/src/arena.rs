//! One range of addresses for small blocks, and dlmalloc in it. The range is reserved once and
//! handed out upwards, so free memory at its upper end returns to the kernel. Free memory in
//! between returns too.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlmalloc::{Allocator as Pages, Dlmalloc};

use crate::process_memory::page_bytes;

/// Bytes of the arena: the small blocks of some 3,000 jobs at once. As much as this stays with
/// process 1 at the worst.
pub(crate) const ARENA_BYTES: usize = 4 << 20;

/// Free memory returns to the kernel at once if this many bytes fewer are in use than shortly
/// before. Smaller drops are kept for the next jobs.
pub(crate) const EBB_BYTES: usize = 1 << 20;

/// Free memory returns to the kernel after a while without use if it is this many bytes. Fewer are
/// not worth the work: some 20 jobs.
const UNNEEDED_BYTES: usize = 64 << 10;

/// Pages of the smallest free piece between blocks in use that returns to the kernel: at least one
/// whole page of it is free.
const SMALLEST_PIECE_PAGES: usize = 2;

/// The alignment that each block of dlmalloc has.
const USUAL_ALIGN: usize = 2 * size_of::<usize>();

/// An address where no block can be: this many bytes below the end of all addresses.
const NOWHERE: usize = usize::MAX - ARENA_BYTES + 1;

/// Where the arena begins. Written once, before the first block exists. A thread that has a block
/// got it from a thread that had seen this value.
static BASE: AtomicUsize = AtomicUsize::new(NOWHERE);

/// Whether this block is in the arena.
pub(crate) fn has(block: *mut u8) -> bool {
    offset(block) < ARENA_BYTES
}

/// Bytes from the beginning of the arena to this block. Of a block that is not in it they are more
/// than the arena has.
pub(crate) fn offset(block: *mut u8) -> usize {
    block.addr().wrapping_sub(BASE.load(Ordering::Relaxed))
}

/// The range, as dlmalloc asks for pages of it.
pub(crate) struct Arena {
    /// Null: not reserved yet.
    base: Cell<*mut u8>,
    /// Bytes from its beginning on that dlmalloc has.
    used: Cell<usize>,
    /// Bytes that dlmalloc may have in all, the used ones included. 0: there is no range, or the
    /// arena gives out no memory for the moment.
    room: Cell<usize>,
}

// SAFETY: the pointer is to memory that belongs to the owner of the arena, on any thread.
unsafe impl Send for Arena {}

impl Arena {
    /// An empty arena of this many bytes.
    pub(crate) const fn new(bytes: usize) -> Self {
        Self {
            base: Cell::new(ptr::null_mut()),
            used: Cell::new(0),
            room: Cell::new(bytes),
        }
    }

    /// Reserves the range. If the kernel refuses, for example because of a limit of addresses, the
    /// arena has no room and does not try again.
    fn reserve(&self) {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new range, wherever the kernel has one.
        let base = unsafe { libc::mmap(ptr::null_mut(), self.room.get(), protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            self.room.set(0);
            return;
        }
        // One huge page for the first block would add 2 MiB to an idle process. Kernels without
        // huge pages refuse this call. SAFETY: the range that was just reserved.
        unsafe { libc::madvise(base, self.room.get(), libc::MADV_NOHUGEPAGE) };
        self.base.set(base.cast());
        BASE.store(base.addr(), Ordering::Relaxed);
    }
}

// SAFETY: each range that is handed out belongs to this arena and to no other code, and stays
// readable and writable; the next one begins where the last one ended.
unsafe impl Pages for Arena {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        const NONE: (*mut u8, usize, u32) = (ptr::null_mut(), 0, 0);
        if self.base.get().is_null() && self.room.get() > 0 {
            self.reserve();
        }
        let used = self.used.get();
        if size > self.room.get().saturating_sub(used) {
            return NONE;
        }
        self.used.set(used + size);
        (self.base.get().wrapping_add(used), size, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, start: *mut u8, old_size: usize, new_size: usize) -> bool {
        let is_last = start.wrapping_add(old_size) == self.base.get().wrapping_add(self.used.get());
        if !is_last || !let_go(start.wrapping_add(new_size), old_size - new_size) {
            return false;
        }
        self.used.set(self.used.get() - (old_size - new_size));
        true
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    /// Returned memory is zero when it is used again, but dlmalloc does not mark such blocks.
    fn allocates_zeros(&self) -> bool {
        false
    }

    fn page_size(&self) -> usize {
        page()
    }
}

/// The small blocks of the process.
pub(crate) struct Small {
    blocks: Dlmalloc<Arena>,
    /// Bytes in use, by the layouts of the blocks.
    used: usize,
    /// The most of them since the last call of [`Small::return_unneeded`], or since free memory
    /// last returned to the kernel.
    most: usize,
    /// The most of them before that, since free memory last returned to the kernel. About as many
    /// bytes have pages.
    touched: usize,
}

impl Small {
    pub(crate) const fn new(arena: Arena) -> Self {
        Self {
            blocks: Dlmalloc::new_with_allocator(arena),
            used: 0,
            most: 0,
            touched: 0,
        }
    }

    /// A block with this layout. Null: the arena has no room for it.
    pub(crate) fn take(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: the alignment of a layout is a power of two; any size is accepted.
        let block = unsafe { self.blocks.c_memalign(layout.align(), layout.size()) };
        if !block.is_null() {
            self.counts(layout.size());
        }
        block
    }

    /// Frees a block. Of dlmalloc's two ways to free this is the one without assertions: a failed
    /// assertion would allocate its message, and so wait for the lock that its own thread holds.
    ///
    /// # Safety
    ///
    /// `block` is a block of this arena, in use, with this layout, and is used no more.
    pub(crate) unsafe fn give_back(&mut self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller promises it.
        unsafe { self.blocks.c_free(block) };
        self.used = self.used.saturating_sub(layout.size());
        if self.most - self.used >= EBB_BYTES {
            self.ebb();
        }
    }

    /// The block with another size, perhaps at another place. Null: the arena has no room for it,
    /// and the block is unchanged.
    ///
    /// # Safety
    ///
    /// `block` is a block of this arena, in use, with this layout. If it is moved, it is used no
    /// more.
    pub(crate) unsafe fn resize(&mut self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() > USUAL_ALIGN {
            // dlmalloc would not keep the alignment.
            return ptr::null_mut();
        }
        // SAFETY: the caller promises it. Again it is the way without assertions.
        let resized = unsafe { self.blocks.c_realloc(block, new_size) };
        if !resized.is_null() {
            self.used = self.used.saturating_sub(layout.size());
            self.counts(new_size);
        }
        resized
    }

    fn counts(&mut self, more: usize) {
        self.used = self.used.saturating_add(more);
        self.most = self.most.max(self.used);
    }

    /// Whether much fewer bytes are in use than may have pages.
    pub(crate) fn has_unneeded(&self) -> bool {
        self.touched.max(self.most) - self.used >= UNNEEDED_BYTES
    }

    /// Returns the memory to the kernel that was free ever since the last call, if it is much.
    /// Returns whether much is free that was not free all the time.
    pub(crate) fn return_unneeded(&mut self) -> bool {
        let needed = std::mem::replace(&mut self.most, self.used);
        self.touched = self.touched.max(needed);
        if self.touched - needed >= UNNEEDED_BYTES {
            self.ebb();
        }
        self.has_unneeded()
    }

    /// Returns free memory to the kernel after a burst. dlmalloc does that itself at the upper end,
    /// but has no call for free memory in between. So this function allocates each large free piece
    /// for a moment and releases the whole pages in it.
    #[cold]
    fn ebb(&mut self) {
        self.most = self.used;
        self.touched = self.used;
        // SAFETY: no other code has the blocks now.
        unsafe { self.blocks.trim(0) };
        let room = self.blocks.allocator().room.replace(0);
        let smallest = SMALLEST_PIECE_PAGES * page();
        let mut piece = ARENA_BYTES;
        let mut taken: *mut Taken = ptr::null_mut();
        while piece >= smallest {
            // SAFETY: any size is accepted.
            let block = unsafe { self.blocks.c_malloc(piece) };
            if block.is_null() {
                piece -= (piece / 8).max(page());
                continue;
            }
            // Whole pages in it, behind its first words.
            let first = (block.addr() + size_of::<Taken>()).next_multiple_of(page());
            let end = (block.addr() + piece) / page() * page();
            let_go(block.with_addr(first), end.saturating_sub(first));
            // SAFETY: a block of this arena, with room for it, and aligned for every type.
            unsafe { block.cast::<Taken>().write(Taken { before: taken }) };
            taken = block.cast();
        }
        while !taken.is_null() {
            let block = taken;
            // SAFETY: it was written above, and is freed once.
            unsafe {
                taken = (*block).before;
                self.blocks.c_free(block.cast());
            }
        }
        self.blocks.allocator().room.set(room);
    }
}

/// The first words of a free piece that is allocated for a moment.
struct Taken {
    before: *mut Taken,
}

/// Bytes of a page.
fn page() -> usize {
    usize::try_from(page_bytes()).unwrap_or(ARENA_BYTES)
}

/// Releases these pages: they are zero at the next use. Returns whether the kernel did it, because
/// a filter may forbid it.
fn let_go(start: *mut u8, bytes: usize) -> bool {
    // SAFETY: the callers name whole pages of the arena whose content no code reads again.
    unsafe { libc::madvise(start.cast(), bytes, libc::MADV_DONTNEED) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_that_is_refused_has_no_room_and_is_not_asked_for_again() {
        // More bytes than there are addresses.
        let mut small = Small::new(Arena::new(usize::MAX / 2));
        let layout = Layout::new::<u64>();
        assert!(small.take(layout).is_null());
        assert_eq!(small.blocks.allocator().room.get(), 0);
        assert!(small.take(layout).is_null());
    }

    #[test]
    fn nothing_is_in_an_arena_that_is_not_reserved() {
        for address in [0, 8, ARENA_BYTES, usize::MAX / 2] {
            assert!(address.wrapping_sub(NOWHERE) >= ARENA_BYTES, "{address}");
        }
    }
}
