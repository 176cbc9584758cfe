//! Bytes in pieces, as a network delivers them.

/// A few ways in which these bytes are cut: whole, byte by byte, and in pieces of a length that
/// depends on the bytes alone. A file of the corpus is then a plain message.
pub fn cuts(data: &[u8]) -> [Vec<&[u8]>; 3] {
    const LENGTHS: usize = 61;
    // Byte by byte a long message would take too long.
    let shortest = 1 + data.len() / 4096;
    let length = 1 + shortest + data.iter().map(|byte| usize::from(*byte)).sum::<usize>() % LENGTHS;
    [
        vec![data],
        data.chunks(shortest).collect(),
        data.chunks(length).collect(),
    ]
}

/// Asserts that `read` gives the same result for every cut, and returns that result.
pub fn same_in_any_pieces<T: PartialEq + std::fmt::Debug>(data: &[u8], mut read: impl FnMut(&[&[u8]]) -> T) -> T {
    let [whole, bytes, pieces] = cuts(data);
    let result = read(&whole);
    assert_eq!(read(&bytes), result, "byte by byte");
    assert_eq!(read(&pieces), result, "in pieces");
    result
}
