//! Who waits for whom, from who reads what and who shares a thread with whom.

use ring::Neighbors;

/// The neighbors of the group of this number, where `read_by` has a pair for each agent that writes
/// something, a ring or a cursor, and each agent that reads it.
#[must_use]
pub fn of<A: PartialEq>(number: usize, groups: &[&[A]], read_by: &[(A, A)]) -> Neighbors {
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
    Neighbors { readers, writers }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups are neighbors where an agent of one reads what an agent of the other writes.
    #[test]
    fn neighbors_follow_from_who_reads_what() {
        let read_by = [('a', 'b'), ('b', 'c'), ('c', 'a')];
        let alone: [&[char]; 3] = [&['a'], &['b'], &['c']];
        assert_eq!(of(0, &alone, &read_by), Neighbors { readers: vec![1], writers: vec![2] });
        assert_eq!(of(1, &alone, &read_by), Neighbors { readers: vec![2], writers: vec![0] });
        let two: [&[char]; 2] = [&['a', 'c'], &['b']];
        assert_eq!(of(0, &two, &read_by), Neighbors { readers: vec![1], writers: vec![1] });
        assert_eq!(of(0, &[&['a', 'b', 'c']], &read_by), Neighbors::default());
    }
}
