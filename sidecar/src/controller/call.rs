//! One call of the driver.

use std::time::Duration;

use tonic::{Request, Response, Status};

use super::view::View;
use crate::csi::{Channel, call_with};
use crate::rpc_code::RpcError;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The driver was not asked.
    Unreachable(RpcError),
    /// The driver says so, or did not answer in time.
    Failed(RpcError),
}

impl<D: super::Driver> View<D> {
    /// Calls the driver as soon as it can be asked; from then on the call has `timeout`.
    ///
    /// # Errors
    /// The driver was not asked, or has failed.
    pub async fn call<M, T>(
        &self,
        timeout: Duration,
        request: Request<M>,
        send: impl AsyncFnOnce(Channel, Request<M>) -> Result<Response<T>, Status>,
    ) -> Result<T, CallError> {
        let channel = self.channel().await.map_err(CallError::Unreachable)?;
        let send = async |request| send(channel, request).await;
        let answer = call_with(timeout, request, send).await;
        answer.map_err(|status| CallError::Failed(RpcError::from(&status)))
    }
}
