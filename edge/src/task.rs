//! Futures as promises, such that one which panics still settles its promise.
//!
//! wasm does not unwind: a panic traps, and the future that was being polled is never polled
//! again. Without more its request would hang. So whoever is polled leaves word of how to answer
//! for it, and the panic hook, which runs before the trap, does so.

use std::cell::RefCell;
use std::future::Future;
use std::panic;
use std::pin::Pin;
use std::task::{Context, Poll};

use js_sys::futures::spawn_local;
use js_sys::{Function, Promise};
use wasm_bindgen::prelude::*;

use crate::reply;

thread_local! {
    /// How to settle the promise of the future that is being polled.
    static POLLED: RefCell<Option<(Function, OnPanic)>> = const { RefCell::new(None) };
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &Function, delay_ms: i32);
}

/// What a promise settles with when its future panics.
type OnPanic = fn() -> JsValue;

/// To be called once in an instance's life.
pub fn settle_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        report(info);
        let polled = POLLED.with(|polled| polled.try_borrow_mut().ok()?.take());
        if let Some((resolve, on_panic)) = polled {
            let _ = resolve.call1(&JsValue::UNDEFINED, &on_panic());
        }
    }));
}

/// The promise of a response; on a panic it is the documented 500.
pub fn response(response: impl Future<Output = reply::Result> + 'static) -> Promise {
    let future = async move { response.await.map(JsValue::from) };
    promise(future, || reply::panicked().into())
}

/// A promise that only says when; on a panic, now.
pub fn signal(work: impl Future<Output = ()> + 'static) -> Promise {
    let future = async move {
        work.await;
        Ok(JsValue::UNDEFINED)
    };
    promise(future, || JsValue::UNDEFINED)
}

pub fn sleep(delay_ms: i32) -> Promise {
    Promise::new(&mut |resolve, _| set_timeout(&resolve, delay_ms))
}

fn promise(
    future: impl Future<Output = Result<JsValue, JsValue>> + 'static,
    on_panic: OnPanic,
) -> Promise {
    let mut future = Some(future);
    Promise::new(&mut |resolve, reject| {
        if let Some(future) = future.take() {
            let watched = Watched {
                future: Box::pin(future),
                resolve: resolve.clone(),
                on_panic,
            };
            spawn_local(async move {
                let _ = match watched.await {
                    Ok(value) => resolve.call1(&JsValue::UNDEFINED, &value),
                    Err(error) => reject.call1(&JsValue::UNDEFINED, &error),
                };
            });
        }
    })
}

struct Watched<F> {
    future: Pin<Box<F>>,
    resolve: Function,
    on_panic: OnPanic,
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        POLLED.set(Some((self.resolve.clone(), self.on_panic)));
        let state = self.future.as_mut().poll(context);
        POLLED.set(None);
        state
    }
}
