//! Which groups of agents a group wakes, from which agent reads what another one writes.
//!
//! Invariant: each pair of a writer and a reader in different groups gives one wake target each way.

use ring::WakeTargets;

/// The wake targets of the group with this number, where `read_by` has a pair for each agent that writes
/// something, a ring or a cursor, and each agent that reads it.
#[must_use]
pub fn of<A: PartialEq>(number: usize, groups: &[&[A]], read_by: &[(A, A)]) -> WakeTargets {
    let (mut readers, mut writers) = (Vec::new(), Vec::new());
    for (other, group) in groups.iter().enumerate().filter(|(other, _)| *other != number) {
        let reads = |one: &[A], another: &[A]| {
            read_by.iter().any(|(writer, reader)| one.contains(writer) && another.contains(reader))
        };
        if reads(groups[number], group) {
            readers.push(other);
        }
        if reads(group, groups[number]) {
            writers.push(other);
        }
    }
    WakeTargets { readers, writers }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups wake each other where an agent of one reads what an agent of the other writes.
    #[test]
    fn wake_targets_follow_from_the_table() {
        let read_by = [('a', 'b'), ('b', 'c'), ('c', 'a')];
        let alone: [&[char]; 3] = [&['a'], &['b'], &['c']];
        assert_eq!(of(0, &alone, &read_by), WakeTargets { readers: vec![1], writers: vec![2] });
        assert_eq!(of(1, &alone, &read_by), WakeTargets { readers: vec![2], writers: vec![0] });
        let two: [&[char]; 2] = [&['a', 'c'], &['b']];
        assert_eq!(of(0, &two, &read_by), WakeTargets { readers: vec![1], writers: vec![1] });
        assert_eq!(of(0, &[&['a', 'b', 'c']], &read_by), WakeTargets::default());
    }
}
