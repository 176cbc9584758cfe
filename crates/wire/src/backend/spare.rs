//! Memory of large envelopes that were passed on, for the next ones. The kernel would clear each
//! page of new memory, which costs more than all other work on a large job.

/// Most memory that is kept, in bytes.
pub const MOST_SPARE_BYTES: usize = 16 << 20;

/// Most pieces of memory that are kept.
const MOST_PIECES: usize = 64;

/// Memory without content.
#[derive(Debug, Default)]
pub struct Spare {
    pieces: Vec<Vec<u8>>,
    bytes: usize,
}

impl Spare {
    /// Keeps this memory, if there is room.
    pub fn put(&mut self, mut memory: Vec<u8>) {
        let bytes = memory.capacity();
        if bytes > 0 && self.bytes + bytes <= MOST_SPARE_BYTES && self.pieces.len() < MOST_PIECES {
            memory.clear();
            self.bytes += bytes;
            self.pieces.push(memory);
        }
    }

    /// Memory for some bytes more than these, or none: new memory is reserved for at most `most`
    /// bytes.
    pub(crate) fn take(&mut self, most: usize) -> Vec<u8> {
        if let Some(memory) = self.pieces.pop() {
            self.bytes -= memory.capacity();
            return memory;
        }
        let mut memory = Vec::new();
        // Without this room the memory grows while bytes arrive.
        let _ = memory.try_reserve_exact(most);
        memory
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_empty_and_has_a_bound() {
        let mut spare = Spare::default();
        spare.put(vec![1; 100]);
        let memory = spare.take(5);
        assert!(memory.is_empty() && memory.capacity() >= 100 && spare.is_empty());
        assert_eq!(spare.take(5).capacity(), 5);
        for _ in 0..100 {
            spare.put(Vec::with_capacity(1 << 20));
        }
        assert_eq!(spare.bytes, MOST_SPARE_BYTES);
        spare.put(Vec::with_capacity(1));
        assert_eq!(spare.bytes, MOST_SPARE_BYTES);
    }
}
