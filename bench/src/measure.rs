//! Contenders take turns, A B C … C B A, so that whatever disturbs the machine disturbs them all.

use std::cell::RefCell;
use std::error::Error;

use crate::machine;

/// Somebody who is measured: a name, and a run that returns its speed in GB/s.
pub struct Contender<'a> {
    pub name: String,
    pub run: Box<dyn FnMut() -> Result<f64, Box<dyn Error>> + 'a>,
}

impl<'a> Contender<'a> {
    pub fn new(name: impl Into<String>, run: impl FnMut() -> Result<f64, Box<dyn Error>> + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// The median speed of each contender, in GB/s, after one round that does not count.
pub fn medians(contenders: &mut [Contender<'_>], rounds: usize) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut speeds = vec![Vec::with_capacity(rounds); contenders.len()];
    for contender in contenders.iter_mut() {
        (contender.run)().map_err(|error| format!("{}: {error}", contender.name))?;
    }
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let contender = &mut contenders[index];
            speeds[index].push((contender.run)().map_err(|error| format!("{}: {error}", contender.name))?);
        }
    }
    Ok(speeds
        .into_iter()
        .map(|mut speeds| {
            speeds.sort_by(f64::total_cmp);
            speeds[speeds.len() / 2]
        })
        .collect())
}

/// What contenders took, in the medians of their runs.
pub struct Spent {
    /// GB/s, elapsed.
    pub speed: f64,
    /// Seconds of all cores that this process took for a GB.
    pub own: f64,
    /// Those that programs took which it ran meanwhile.
    pub others: f64,
}

/// [`medians`] of runs over as many bytes, and what they took of the cores. That counts on a busy machine, too.
pub fn spent(
    contenders: &mut [Contender<'_>],
    rounds: usize,
    bytes: u64,
) -> Result<Vec<Spent>, Box<dyn Error>> {
    let taken: Vec<RefCell<Vec<[f64; 2]>>> = contenders.iter().map(|_| RefCell::default()).collect();
    let mut metered: Vec<_> = contenders
        .iter_mut()
        .zip(&taken)
        .map(|(contender, taken)| {
            Contender::new(contender.name.clone(), || {
                let before = machine::processor_time();
                let speed = (contender.run)()?;
                let after = machine::processor_time();
                taken.borrow_mut().push([0, 1].map(|at| (after[at] - before[at]) * 1e9 / bytes as f64));
                Ok(speed)
            })
        })
        .collect();
    let speeds = medians(&mut metered, rounds)?;
    drop(metered);
    let median = |runs: &[[f64; 2]], at: usize| {
        // The first round does not count.
        let mut runs: Vec<f64> = runs.iter().skip(1).map(|run| run[at]).collect();
        runs.sort_by(f64::total_cmp);
        runs[runs.len() / 2]
    };
    Ok(speeds
        .into_iter()
        .zip(taken.into_iter().map(RefCell::into_inner))
        .map(|(speed, runs)| Spent { speed, own: median(&runs, 0), others: median(&runs, 1) })
        .collect())
}
