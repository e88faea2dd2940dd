//! Media and stores that keep who awaits them waiting, and the executor that waits.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};

use atrest_device::asynchronous::{self, Blocking};
use atrest_device::{
    FlashDevice, FlashError, FlashGeometry, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError,
};
use atrest_flash::asynchronous::store as waiting;
use atrest_flash::sealed::store::{ElementSlots, FRAME_LEN, MonotonicCounter};

/// Something blocking, of which each operation is awaited once before it happens, and once after: a future that is dropped at the first
/// has done nothing, and at the second everything, of which nobody has heard.
#[derive(Debug)]
pub struct Waits<T>(pub T);

/// Pending once. Whoever polls is woken.
pub async fn pause() {
    let mut waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

pub async fn between_pauses<T>(work: impl Future<Output = T>) -> T {
    pause().await;
    let done = work.await;
    pause().await;
    done
}

/// Polls until it is ready.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    poll_at_most(usize::MAX, future).expect("polled for ever")
}

/// Polls so many times, and drops the future if it is not ready then.
pub fn poll_at_most<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let waker = Arc::clone(&woken).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    for _ in 0..polls {
        assert!(woken.0.swap(false, Ordering::Relaxed), "a future is pending and nothing will wake it");
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return Some(done);
        }
    }
    None
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<D: FlashDevice> asynchronous::FlashDevice for Waits<D> {
    fn geometry(&self) -> FlashGeometry {
        self.0.geometry()
    }

    async fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        between_pauses(Blocking(&mut self.0).read(address, buf)).await
    }

    async fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        between_pauses(Blocking(&mut self.0).prog(address, data)).await
    }

    async fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        between_pauses(Blocking(&mut self.0).erase(address, len)).await
    }

    async fn sync(&mut self) -> Result<(), FlashError> {
        between_pauses(Blocking(&mut self.0).sync()).await
    }

    fn erased_byte(&self) -> Option<u8> {
        self.0.erased_byte()
    }

    async fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        between_pauses(Blocking(&mut self.0).is_blank(address, len, scratch)).await
    }
}

impl<S: TrustedStore> asynchronous::TrustedStore for Waits<S> {
    async fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        between_pauses(Blocking(&mut self.0).load()).await
    }

    async fn claim(&mut self) -> Result<(), TrustedStoreError> {
        between_pauses(Blocking(&mut self.0).claim()).await
    }

    async fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        between_pauses(Blocking(&mut self.0).store(record)).await
    }

    async fn stored_at_most(&mut self) -> Result<Option<u64>, TrustedStoreError> {
        between_pauses(Blocking(&mut self.0).stored_at_most()).await
    }
}

impl<C: MonotonicCounter> waiting::MonotonicCounter for Waits<C> {
    async fn value(&mut self) -> Result<u64, TrustedStoreError> {
        between_pauses(async { self.0.value() }).await
    }

    async fn increment(&mut self) -> Result<(), TrustedStoreError> {
        between_pauses(async { self.0.increment() }).await
    }
}

impl<E: ElementSlots> waiting::ElementSlots for Waits<E> {
    async fn read(&mut self, slot: u8, out: &mut [u8; FRAME_LEN]) -> Result<(), TrustedStoreError> {
        between_pauses(async { self.0.read(slot, out) }).await
    }

    async fn write(&mut self, slot: u8, bytes: &[u8; FRAME_LEN]) -> Result<(), TrustedStoreError> {
        between_pauses(async { self.0.write(slot, bytes) }).await
    }
}

#[test]
#[should_panic(expected = "nothing will wake it")]
fn a_future_that_nothing_wakes_does_not_hang_a_test() {
    block_on(std::future::pending::<()>());
}

#[test]
fn a_future_is_dropped_before_or_after_the_operation() {
    let mut nothing = Vec::new();
    for polls in 0..4 {
        let done = poll_at_most(polls, between_pauses(async { nothing.push(polls) }));
        assert_eq!(done.is_some(), polls == 3);
    }
    assert_eq!(nothing, [2, 3]);
}
