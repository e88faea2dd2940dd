//! A cache that forgets what was used least recently.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Values with weights, whose sum stays below a bound.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    most: usize,
    weight: usize,
    clock: u64,
    values: HashMap<K, (u64, usize, V)>,
    order: BTreeMap<u64, K>,
}

impl<K: Hash + Eq + Clone, V: Clone> Lru<K, V> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, weight: 0, clock: 0, values: HashMap::new(), order: BTreeMap::new() }
    }

    pub(crate) fn find<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (used, _, value) = self.values.get_mut(key)?;
        let key = self.order.remove(used)?;
        self.clock += 1;
        *used = self.clock;
        self.order.insert(self.clock, key);
        Some(value.clone())
    }

    /// The value that was used last.
    pub(crate) fn latest(&self) -> Option<&V> {
        let (_, key) = self.order.last_key_value()?;
        self.values.get(key).map(|(_, _, value)| value)
    }

    /// Keeps a value, unless it alone is too heavy.
    pub(crate) fn keep(&mut self, key: K, weight: usize, value: V) {
        self.forget(&key);
        if weight > self.most {
            return;
        }
        while self.weight + weight > self.most {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            if let Some((_, weight, _)) = self.values.remove(&oldest) {
                self.weight -= weight;
            }
        }
        self.clock += 1;
        self.weight += weight;
        self.order.insert(self.clock, key.clone());
        self.values.insert(key, (self.clock, weight, value));
    }

    pub(crate) fn forget<Q: Hash + Eq + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        if let Some((used, weight, _)) = self.values.remove(key) {
            self.order.remove(&used);
            self.weight -= weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first_and_the_bound_holds() {
        let mut cache = Lru::new(10);
        for key in 0..5 {
            cache.keep(key, 2, key * 100);
        }
        assert_eq!(cache.find(&0), Some(0));
        cache.keep(9, 4, 900);
        assert_eq!(
            [0, 1, 2, 3, 4, 9].map(|key| cache.find(&key)),
            [Some(0), None, None, Some(300), Some(400), Some(900)]
        );
        assert_eq!((cache.weight, cache.values.len(), cache.order.len()), (10, 4, 4));
        cache.keep(9, 11, 901);
        assert_eq!((cache.find(&9), cache.weight), (None, 6));
        cache.keep(3, 1, 301);
        assert_eq!((cache.find(&3), cache.weight), (Some(301), 5));
    }
}
