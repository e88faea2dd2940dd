//! Chains of clusters that run in a circle.

/// Whether runs of clusters, each by its first cluster and its length, have a cluster in common. Those of one chain have only if it runs in a
/// circle, which the length of a file would end as if nothing were wrong.
pub(crate) fn overlap(runs: impl Iterator<Item = (u32, u32)>) -> bool {
    let mut sorted: Vec<_> = runs.collect();
    sorted.sort_unstable();
    sorted
        .array_windows()
        .any(|[(first, len), (next, _)]| first.checked_add(*len).is_none_or(|end| end > *next))
}
