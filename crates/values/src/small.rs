//! Sort and collect with little code, away from the path of a job. The standard library's sort adds
//! 5 KB to the binary for each type, and its `collect` into a `BTreeMap` or `BTreeSet` sorts.

/// Sorts by heapsort. Elements of which neither `is_before` the other get into any order.
pub fn sort_by<T>(items: &mut [T], is_before: impl Fn(&T, &T) -> bool) {
    let length = items.len();
    for root in (0..length / 2).rev() {
        sink(items, root, &is_before);
    }
    for end in (1..length).rev() {
        items.swap(0, end);
        sink(&mut items[..end], 0, &is_before);
    }
}

/// Swaps the element at `root` with its larger child until it has no larger one.
fn sink<T>(heap: &mut [T], mut root: usize, is_before: &impl Fn(&T, &T) -> bool) {
    loop {
        let mut child = 2 * root + 1;
        if child + 1 < heap.len() && is_before(&heap[child], &heap[child + 1]) {
            child += 1;
        }
        if child >= heap.len() || !is_before(&heap[root], &heap[child]) {
            return;
        }
        heap.swap(root, child);
        root = child;
    }
}

/// Inserts the items one by one into a new collection.
pub fn gather<T, C: Default + Extend<T>>(items: impl IntoIterator<Item = T>) -> C {
    let mut collection = C::default();
    collection.extend(items);
    collection
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_of_seven_elements_is_sorted() {
        for number in 0..7_usize.pow(7) {
            let mut items: Vec<usize> = (0..7).map(|place| number / 7_usize.pow(place) % 7).collect();
            let mut expected = items.clone();
            expected.sort_unstable();
            sort_by(&mut items, |one, other| one < other);
            assert_eq!(items, expected);
        }
    }

    #[test]
    fn slices_of_every_length_up_to_100_are_sorted() {
        for length in 0..100_usize {
            let mut items: Vec<usize> = (0..length).map(|place| place * 37 % 101).collect();
            let mut expected = items.clone();
            expected.sort_unstable();
            sort_by(&mut items, |one, other| one < other);
            assert_eq!(items, expected);
        }
    }

    #[test]
    fn of_two_entries_with_one_key_the_last_is_gathered() {
        let gathered: std::collections::BTreeMap<u8, char> = gather([(2, 'a'), (1, 'b'), (2, 'c')]);
        assert!(gathered.into_iter().eq([(1, 'b'), (2, 'c')]));
    }
}
