//! Handlers that are futures.
//!
//! A future runs in its handler's own thread, in the context of the program's tokio runtime. It need
//! not be `Send`, a blocking call in it holds up no other job, and all that is around handlers is
//! the same for both kinds.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use serde::{Serialize, de::DeserializeOwned};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::worker::{WithState, Worker};
use crate::{error::Result, job::Job, steps::read_kept};

impl Worker {
    /// [`Worker::handle_typed`] with a handler that is an `async` function or closure, on the tokio
    /// runtime in whose context this is called.
    ///
    /// When the job is cancelled, the future is dropped where it awaits something. What has to be
    /// awaited after a cancel belongs into a task of its own (`tokio::spawn`).
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// #[tokio::main]
    /// async fn main() -> std::process::ExitCode {
    ///     let mut worker = ojs_worker::Worker::new();
    ///     worker.handle_async("nap", async |_job, seconds: u64| {
    ///         tokio::time::sleep(Duration::from_secs(seconds)).await;
    ///         Ok(())
    ///     });
    ///     worker.main()
    /// }
    /// ```
    ///
    /// # Panics
    /// As for [`Worker::handle`]; and if there is no runtime, or one with a single thread, whose
    /// timers and sockets would stand still while the worker runs.
    pub fn handle_async<A, T, H>(&mut self, kind: &str, handler: H) -> &mut Worker
    where
        A: DeserializeOwned,
        T: Serialize,
        H: AsyncFn(&Job, A) -> Result<T> + Send + Sync + 'static,
    {
        self.with_state(()).handle_async(kind, async move |job: &Job, (): &(), args| handler(job, args).await);
        self
    }
}

impl Job {
    /// [`Job::step`] with a body that is a future.
    ///
    /// # Errors
    /// As for [`Job::step`].
    pub async fn step_async<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        body: impl AsyncFnOnce() -> Result<T>,
    ) -> Result<T> {
        let kept = self.begin_step(name)?;
        let kept = if let Some(kept) = kept { kept } else { self.end_step(name, body().await)? };
        read_kept(name, &kept)
    }
}

impl<S: Send + Sync + 'static> WithState<'_, S> {
    /// [`Worker::handle_async`] with the shared value.
    ///
    /// # Panics
    /// As for [`Worker::handle_async`].
    pub fn handle_async<A, T, H>(&mut self, kind: &str, handler: H) -> &mut Self
    where
        A: DeserializeOwned,
        T: Serialize,
        H: AsyncFn(&Job, &S, A) -> Result<T> + Send + Sync + 'static,
    {
        let runtime = Handle::try_current().ok();
        let runtime = runtime.filter(|runtime| runtime.runtime_flavor() != RuntimeFlavor::CurrentThread);
        #[expect(clippy::expect_used, reason = "a mistake in the program, at its start")]
        let runtime = runtime.expect(
            "handle_async needs a tokio runtime of several threads: call it in `#[tokio::main] async fn main()`, \
             in a test in `#[tokio::test(flavor = \"multi_thread\")]`",
        );
        let state = Arc::clone(&self.state);
        self.worker.handle_typed(kind, move |job, args| {
            runtime.block_on(async {
                let mut future = pin!(handler(job, &state, args));
                poll_fn(|context| match (future.as_mut().poll(context), job.poll_cancelled(context.waker())) {
                    (Poll::Pending, Err(cancelled)) => Poll::Ready(Err(cancelled.into())),
                    (polled, _) => polled,
                })
                .await
            })
        });
        self
    }
}
