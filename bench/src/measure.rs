//! Contenders take turns, A B C … C B A, so that whatever disturbs the machine disturbs them all.

use std::error::Error;

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
