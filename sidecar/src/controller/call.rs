//! Calls of the driver.

use std::convert::Infallible;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use tokio::time::Instant;

use super::Driver;
use super::view::View;
use crate::csi::rpc::Rpc;
use crate::csi::{Migrated, call_with};
use crate::rpc_code::RpcError;
use crate::why;

/// Why a call has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// No call reached the driver.
    Unreachable(RpcError),
    /// The driver returned an error, or did not answer in time.
    Failed(RpcError),
}

/// A call to the driver.
#[derive(Clone, Debug, PartialEq)]
pub struct Call<M, T = ()> {
    message: Box<M>,
    migrated: Migrated,
    /// Data of the caller, returned with the result.
    pub about: T,
}

impl<M> Call<M> {
    /// A call to be marked and counted as `migrated` says.
    pub fn new(message: M, migrated: Migrated) -> Self {
        Self {
            migrated,
            ..Self::about(message, ())
        }
    }
}

impl<M, T> Call<M, T> {
    /// A call that carries `about`, for the caller to find in the result.
    pub fn about(message: M, about: T) -> Self {
        Self {
            message: Box::new(message),
            migrated: Migrated(false),
            about,
        }
    }
}

impl<M, T> Deref for Call<M, T> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.message
    }
}

impl<M, T> DerefMut for Call<M, T> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.message
    }
}

impl<M> From<M> for Call<M> {
    fn from(message: M) -> Self {
        Self::about(message, ())
    }
}

/// The calls to the driver that one controller makes; [`calls!`](crate::calls) lists them.
pub trait Calls: Send + Sync {
    /// A call with its result.
    type Called: Send;

    /// Calls the driver as soon as it is reachable; `timeout` runs from then. Returns the call's duration as well.
    fn send<D: Driver>(
        self,
        driver: &View<D>,
        timeout: Duration,
    ) -> impl Future<Output = (Self::Called, Duration)> + Send;

    /// Ends the call with this error.
    fn failed(self, error: CallError) -> Self::Called;

    /// The call's name, and the error that it ended with.
    fn outcome(called: &Self::Called) -> (&'static str, Option<&CallError>);

    /// The name of the RPC.
    fn name(&self) -> &'static str;
}

/// A call of one type, which determines the type of the response.
pub trait OneCall {
    /// The driver's response.
    type Response;
}

impl<M: Rpc, T> OneCall for Call<M, T> {
    type Response = M::Response;
}

/// A controller makes calls of this type.
pub trait Makes<C: OneCall>: Calls {
    /// The call and its result, if it is of this type.
    fn found(called: &Self::Called) -> Option<(&C, Result<&C::Response, &CallError>)>;
}

/// For a controller without a driver.
impl Calls for Infallible {
    type Called = Self;

    async fn send<D: Driver>(self, _driver: &View<D>, _timeout: Duration) -> (Self, Duration) {
        match self {}
    }

    fn failed(self, _error: CallError) -> Self {
        self
    }

    fn outcome(called: &Self) -> (&'static str, Option<&CallError>) {
        match *called {}
    }

    fn name(&self) -> &'static str {
        match *self {}
    }
}

/// Declares the calls that a controller makes, as two enums: `Call`, and `Called` with the result of each.
#[macro_export]
macro_rules! calls {
    ($($call:ident($request:ty $(, $about:ty)?)),+ $(,)?) => {
        /// A call to the driver.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Call {
            $(
                #[doc = concat!("`", stringify!($call), "`.")]
                $call($crate::controller::Call<$request $(, $about)?>),
            )+
        }

        /// A call with its result.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Called {
            $(
                #[doc = concat!("[`Call::", stringify!($call), "`].")]
                $call(
                    $crate::controller::Call<$request $(, $about)?>,
                    Result<<$request as $crate::csi::rpc::Rpc>::Response, $crate::controller::CallError>,
                ),
            )+
        }

        impl $crate::controller::Calls for Call {
            type Called = Called;

            async fn send<D: $crate::controller::Driver>(
                self,
                driver: &$crate::controller::View<D>,
                timeout: std::time::Duration,
            ) -> (Called, std::time::Duration) {
                match self {
                    $(Self::$call(call) => {
                        let (result, took) = driver.call(&call, timeout).await;
                        (Called::$call(call, result), took)
                    })+
                }
            }

            fn failed(self, error: $crate::controller::CallError) -> Called {
                match self {
                    $(Self::$call(call) => Called::$call(call, Err(error)),)+
                }
            }

            fn outcome(called: &Called) -> (&'static str, Option<&$crate::controller::CallError>) {
                match called {
                    $(Called::$call(_, result) => (stringify!($call), result.as_ref().err()),)+
                }
            }

            fn name(&self) -> &'static str {
                match self {
                    $(Self::$call(_) => <$request as $crate::csi::rpc::Rpc>::name(),)+
                }
            }
        }

        $(impl $crate::controller::call::Makes<$crate::controller::Call<$request $(, $about)?>> for Call {
            #[allow(clippy::allow_attributes, irrefutable_let_patterns, reason = "there may be one call alone")]
            fn found(
                called: &Called,
            ) -> Option<(
                &$crate::controller::Call<$request $(, $about)?>,
                Result<&<$request as $crate::csi::rpc::Rpc>::Response, &$crate::controller::CallError>,
            )> {
                let Called::$call(call, result) = called else {
                    return None;
                };
                Some((call, result.as_ref()))
            }
        })+
    };
}

impl<D: Driver> View<D> {
    /// Calls the driver as soon as it is reachable; `timeout` runs from then. Returns the call's duration as well.
    pub async fn call<M: Rpc, T: Sync>(
        &self,
        call: &Call<M, T>,
        timeout: Duration,
    ) -> (Result<M::Response, CallError>, Duration) {
        let channel = match self.channel().await {
            Ok(channel) => channel,
            Err(error) => return (Err(CallError::Unreachable(error)), Duration::ZERO),
        };
        let (request, started) = (call.migrated.mark(M::clone(call)), Instant::now());
        why::call_begins(timeout);
        let response = call_with(timeout, request, async |request| {
            M::send(channel, request).await
        });
        let response = response.await;
        let result = response.map_err(|status| CallError::Failed(RpcError::from(&status)));
        (result, started.elapsed())
    }
}
