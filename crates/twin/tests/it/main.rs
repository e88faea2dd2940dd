//! What the two attributes make of one source.
#![allow(clippy::duplicate_mod, reason = "what is tested is one source that is compiled twice")]

mod asynchronous;
mod blocking;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[test]
fn one_source_says_the_same_with_and_without_awaiting() {
    let expected = Ok((vec![3, 2, 3, 5, 25, 52], 7));
    assert_eq!(blocking::in_every_form(&mut blocking::Counting(0)), expected);
    assert_eq!(ready(asynchronous::in_every_form(&mut asynchronous::Counting(0))), expected);
    let refused = Err("async .await");
    assert_eq!(blocking::in_every_form(&mut blocking::Counting(50)), refused);
    assert_eq!(ready(asynchronous::in_every_form(&mut asynchronous::Counting(50))), refused);
}

#[test]
fn what_is_blocking_is_done_when_the_call_returns() {
    use asynchronous::Device as _;
    use blocking::Device as _;
    let (mut blocks, mut waits) = (blocking::Counting(40), asynchronous::Counting(40));
    assert_eq!(blocks.sum(2), Ok(86));
    let sum = waits.sum(2);
    drop(sum);
    assert_eq!((blocks.0, waits.0), (44, 40), "a future does nothing before it is polled");
    assert_eq!((ready(waits.sum(2)), waits.0), (Ok(86), 44));
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing here waits"),
    }
}
