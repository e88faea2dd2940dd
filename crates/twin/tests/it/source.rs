//! Written once, compiled twice.

use super::twin;

/// Words stay words: async, .await.
#[twin]
#[allow(async_fn_in_trait, reason = "a test")]
pub trait Device {
    const UNIT: usize;

    /// A default that waits twice.
    async fn sum(&mut self, by: u32) -> Result<u32, &'static str> {
        let first = self.read(by).await?;
        Ok(first + self.read(by).await?)
    }

    async fn read(&mut self, by: u32) -> Result<u32, &'static str>;
}

pub struct Counting(pub u32);

#[twin]
impl Device for Counting {
    const UNIT: usize = 7;

    async fn read(&mut self, by: u32) -> Result<u32, &'static str> {
        self.0 += by;
        if self.0 > 100 { Err("async .await") } else { Ok(self.0) }
    }
}

#[twin]
pub async fn in_every_form<D: Device>(device: &mut D) -> Result<(Vec<u32>, usize), &'static str> {
    let mut found = vec![device.sum(1).await?];
    for by in 0..3 {
        if let Ok(read) = device.read(by).await {
            found.push(read);
        }
    }
    let in_closure = async |device: &mut D| device.read(20).await;
    found.push(in_closure(device).await?);
    macro_rules! read {
        ($device:expr) => {
            $device.read(40).await
        };
    }
    found.push(device.read(1).await.map_or(0, |read| read * 2));
    read!(device)?;
    Ok((found, D::UNIT))
}
