//! Members in groups, each found by the name of its group. A group without members is removed, so
//! the memory depends on the present members alone.

use std::collections::{BTreeMap, BTreeSet};

/// Groups of `V`, by their names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Groups<K: Ord, V: Ord> {
    groups: BTreeMap<K, BTreeSet<V>>,
    /// Always empty: the members of a group that does not exist.
    none: BTreeSet<V>,
}

impl<K: Ord, V: Ord> Default for Groups<K, V> {
    fn default() -> Self {
        Self {
            groups: BTreeMap::new(),
            none: BTreeSet::new(),
        }
    }
}

impl<K: Ord, V: Ord> Groups<K, V> {
    /// Adds a member to a group.
    pub fn insert(&mut self, group: K, member: V) {
        self.groups.entry(group).or_default().insert(member);
    }

    /// Removes a member from a group.
    pub fn remove(&mut self, group: &K, member: &V) {
        if let Some(members) = self.groups.get_mut(group) {
            members.remove(member);
            if members.is_empty() {
                self.groups.remove(group);
            }
        }
    }

    /// The members of a group.
    pub fn of(&self, group: &K) -> &BTreeSet<V> {
        self.groups.get(group).unwrap_or(&self.none)
    }

    /// The groups that have a member.
    pub fn names(&self) -> impl Iterator<Item = &K> {
        self.groups.keys()
    }
}

/// Puts a member into a set, or removes it.
pub fn set<T: Ord>(members: &mut BTreeSet<T>, member: T, is_in: bool) {
    if is_in {
        members.insert(member);
    } else {
        members.remove(&member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_without_a_member_is_none() {
        let mut groups = Groups::default();
        groups.insert("a", 2);
        groups.insert("a", 1);
        groups.insert("b", 1);
        assert_eq!(groups.of(&"a"), &BTreeSet::from([1, 2]));
        assert_eq!(groups.names().count(), 2);
        for (group, member) in [("a", 1), ("a", 2), ("b", 1), ("c", 1)] {
            groups.remove(&group, &member);
        }
        assert_eq!(groups, Groups::default());
        assert!(groups.of(&"a").is_empty());
    }
}
