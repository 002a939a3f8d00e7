//! Many callers, one statement.
//!
//! Callers put what they ask into a bounded queue; whoever owns a free connection takes whatever
//! waits there as one group and answers each member. There is no timer: a lone caller is a group
//! of one and waits for nobody, and under load groups grow by themselves while the connection is
//! busy with the one before.

use shared::ApiError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;

/// How often the other tasks get a turn while a group still grows.
const MAX_TURNS: usize = 16;

/// One caller's question, and the way back to that caller.
pub struct Call<Q, A> {
    pub question: Q,
    reply: oneshot::Sender<Result<A, ApiError>>,
}

impl<Q, A> Call<Q, A> {
    pub fn answer(self, answer: Result<A, ApiError>) {
        // A caller that has left does not want its answer.
        let _ = self.reply.send(answer);
    }
}

/// The callers' end of the queue.
pub struct Callers<Q, A>(mpsc::Sender<Call<Q, A>>);

impl<Q, A> Clone for Callers<Q, A> {
    fn clone(&self) -> Self {
        Callers(self.0.clone())
    }
}

/// The end of the queue that answers.
pub struct Queue<Q, A> {
    calls: mpsc::Receiver<Call<Q, A>>,
    max_group: usize,
}

/// `max_queued`: one more is refused as overload. `max_group` bounds how long the first of a group
/// waits for the last.
pub fn queue<Q, A>(max_queued: usize, max_group: usize) -> (Callers<Q, A>, Queue<Q, A>) {
    let (sender, calls) = mpsc::channel(max_queued);
    (Callers(sender), Queue { calls, max_group })
}

impl<Q, A> Callers<Q, A> {
    pub async fn ask(&self, question: Q) -> Result<A, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.send(Call { question, reply })
            .map_err(|(_, refusal)| refusal)?;
        // Whoever was to answer is gone: nothing is known of what became of the question.
        answer.await.unwrap_or(Err(ApiError::DatabaseUnavailable))
    }

    /// Asks for somebody who waits already, in another queue.
    pub fn pass_on(&self, call: Call<Q, A>) {
        if let Err((call, refusal)) = self.send(call) {
            call.answer(Err(refusal));
        }
    }

    fn send(&self, call: Call<Q, A>) -> Result<(), (Call<Q, A>, ApiError)> {
        self.0.try_send(call).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(call) => (call, ApiError::Overloaded),
            mpsc::error::TrySendError::Closed(call) => (call, ApiError::DatabaseUnavailable),
        })
    }
}

impl<Q: Send + 'static, A: Send + 'static> Callers<Q, A> {
    /// Tells how many calls wait, for as long as there are callers.
    pub fn depth(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let queue = self.0.downgrade();
        move || match queue.upgrade() {
            Some(queue) => queue.max_capacity() - queue.capacity(),
            None => 0,
        }
    }
}

impl<Q, A> Queue<Q, A> {
    /// Waits for a first call and takes with it whatever else is queued, up to the limit. Callers
    /// that have left meanwhile are passed over. False: no caller is left to ask anything.
    ///
    /// As long as the event loop's other tasks have calls ready, they are waited for: each of
    /// them runs once, and if that brought nobody, the group is complete. A lone caller is so the
    /// only one to have run, and goes at once; of many, those who have just been answered and ask
    /// again join those who had to wait meanwhile.
    pub async fn next_group(&mut self, group: &mut Vec<Call<Q, A>>) -> bool {
        debug_assert!(
            group.is_empty(),
            "a group is answered before the next is taken"
        );
        while group.is_empty() {
            if self.calls.recv_many(group, 1).await == 0 {
                return false;
            }
            for _ in 0..MAX_TURNS {
                let queued = self.calls.len();
                yield_now().await;
                if self.calls.len() == queued || queued >= self.max_group {
                    break;
                }
            }
            if !self.calls.is_empty() {
                self.calls.recv_many(group, self.max_group - 1).await;
            }
            group.retain(|call| !call.reply.is_closed());
        }
        true
    }

    /// Answers every call with `refusal`, those that wait and those that come, for as long as it
    /// is polled; completes when no caller is left.
    pub async fn refuse(&mut self, refusal: ApiError) {
        while let Some(call) = self.calls.recv().await {
            call.answer(Err(refusal));
        }
    }

    /// Passes every call on to others in the same way.
    pub async fn pass_on(&mut self, to: &Callers<Q, A>) {
        while let Some(call) = self.calls.recv().await {
            to.pass_on(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    async fn answer_with_group_size(mut queue: Queue<u32, (u32, usize)>) {
        let mut group = Vec::new();
        while queue.next_group(&mut group).await {
            let size = group.len();
            for call in group.drain(..) {
                let question = call.question;
                call.answer(Ok((question, size)));
            }
        }
    }

    #[tokio::test]
    async fn a_lone_caller_is_a_group_of_one() {
        let (callers, queue) = queue(8, 8);
        tokio::spawn(answer_with_group_size(queue));
        assert_eq!(callers.ask(7).await, Ok((7, 1)));
        assert_eq!(callers.ask(8).await, Ok((8, 1)));
    }

    #[tokio::test]
    async fn whoever_waits_is_taken_together_up_to_the_limit() {
        let (callers, queue) = queue(8, 3);
        let asking = async {
            tokio::join!(
                callers.ask(1),
                callers.ask(2),
                callers.ask(3),
                callers.ask(4)
            )
        };
        let (answers, ()) = tokio::join!(asking, async {
            yield_now().await;
            tokio::spawn(answer_with_group_size(queue));
        });
        assert_eq!(answers, (Ok((1, 3)), Ok((2, 3)), Ok((3, 3)), Ok((4, 1))));
    }

    #[tokio::test]
    async fn who_was_answered_and_asks_again_joins_those_who_waited_meanwhile() {
        let (callers, mut queue) = queue::<u32, usize>(8, 8);
        let callers = std::sync::Arc::new(callers);
        let mut group = Vec::new();
        let mut sizes = Vec::new();
        for asked_first in 0..4 {
            let callers = callers.clone();
            tokio::spawn(async move {
                // Half of them come while the others' group is being answered.
                for _ in 0..asked_first % 2 * 3 {
                    yield_now().await;
                }
                while callers.ask(asked_first).await.is_ok() {}
            });
        }
        for _ in 0..4 {
            assert!(queue.next_group(&mut group).await);
            for _ in 0..5 {
                yield_now().await;
            }
            sizes.push(group.len());
            for call in group.drain(..) {
                let size = sizes.len();
                call.answer(Ok(size));
            }
        }
        assert_eq!(sizes[1..], [4, 4, 4]);
    }

    #[tokio::test]
    async fn a_full_queue_refuses_at_once_and_a_caller_that_left_makes_room() {
        let (callers, mut queue) = queue::<u32, u32>(1, 8);
        let depth = callers.depth();
        {
            let mut waiting = pin!(callers.ask(1));
            assert!(futures_poll_once(waiting.as_mut()).await.is_none());
            assert_eq!(depth(), 1);
            assert_eq!(callers.ask(2).await, Err(ApiError::Overloaded));
        }
        let mut group = Vec::new();
        let mut taking = pin!(queue.next_group(&mut group));
        assert!(
            futures_poll_once(taking.as_mut()).await.is_none(),
            "nobody who still waits was there to take"
        );
    }

    #[tokio::test]
    async fn refusing_answers_those_who_wait_and_those_who_come() {
        let (callers, mut queue) = queue::<u32, u32>(8, 8);
        let asking = async {
            assert_eq!(callers.ask(1).await, Err(ApiError::DatabaseUnavailable));
            assert_eq!(callers.ask(2).await, Err(ApiError::DatabaseUnavailable));
        };
        tokio::select! {
            () = asking => {}
            () = queue.refuse(ApiError::DatabaseUnavailable) => panic!("callers are left"),
        }
        drop(callers);
        queue.refuse(ApiError::DatabaseUnavailable).await;
    }

    #[tokio::test]
    async fn when_nobody_answers_any_more_every_caller_is_told() {
        let (callers, queue) = queue::<u32, u32>(8, 8);
        let (answer, ()) = tokio::join!(callers.ask(1), async { drop(queue) });
        assert_eq!(answer, Err(ApiError::DatabaseUnavailable));
        assert_eq!(callers.ask(2).await, Err(ApiError::DatabaseUnavailable));
    }

    /// Polls once: `None` while it is pending.
    async fn futures_poll_once<T>(
        future: std::pin::Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            value = future => Some(value),
            () = std::future::ready(()) => None,
        }
    }
}
