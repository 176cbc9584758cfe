//! Choices from bytes. Behind their end every choice is the first one.

/// The bytes that are left.
#[derive(Debug)]
pub struct Bytes<'d>(&'d [u8]);

impl<'d> Bytes<'d> {
    pub fn new(data: &'d [u8]) -> Self {
        Self(data)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// A number below `end`, which is at most 256; 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.next()) % end.max(1)
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == count - 1
    }

    /// One of these, unless there is none.
    pub fn any<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        let index = self.below(of.len());
        of.get(index).cloned()
    }

    pub fn pick<T: Clone, const N: usize>(&mut self, of: [T; N]) -> T {
        let index = self.below(N);
        of.into_iter().nth(index).unwrap()
    }
}
