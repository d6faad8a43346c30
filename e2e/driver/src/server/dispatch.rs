//! Dispatches calls to the services.
//!
//! By hand instead of through tonic's router: five services need no web framework, and a role that
//! is not served has to return UNIMPLEMENTED.

use std::sync::Arc;

use bytes::Bytes;
use csi_proto::csi::controller_server::ControllerServer;
use csi_proto::csi::group_controller_server::GroupControllerServer;
use csi_proto::csi::identity_server::IdentityServer;
use csi_proto::csi::node_server::NodeServer;
use csi_proto::csi::snapshot_metadata_server::SnapshotMetadataServer;
use http_body_util::Full;
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

use crate::instrument::unknown::Versions;
use crate::service::Driver;
use crate::service::grpc::Services;

/// The services of a driver.
#[derive(Debug, Clone)]
pub struct Dispatch(Services);

impl Dispatch {
    /// The services of this driver.
    pub fn new(driver: Arc<Driver>) -> Self {
        Self(Services(driver))
    }

    /// The additions of other CSI versions to responses.
    pub fn versions(&self) -> Versions {
        let settings = self.0.0.settings();
        Versions {
            unknown_fields: settings.unknown_fields,
            conditions: settings.conditions,
        }
    }

    /// Calls the service in the request's path.
    pub async fn call(&mut self, request: http::Request<Full<Bytes>>) -> http::Response<Body> {
        let services = self.0.clone();
        let features = &self.0.0.features;
        let service = request.uri().path().split('/').nth(1).unwrap_or_default();
        let answer = match service {
            "csi.v1.Identity" => IdentityServer::new(services).call(request).await,
            "csi.v1.Controller" if features.controller => {
                ControllerServer::new(services).call(request).await
            }
            "csi.v1.GroupController" if features.controller => {
                GroupControllerServer::new(services).call(request).await
            }
            "csi.v1.SnapshotMetadata" if features.controller && features.snapshot_metadata => {
                SnapshotMetadataServer::new(services).call(request).await
            }
            "csi.v1.Node" if features.node => NodeServer::new(services).call(request).await,
            other => {
                let message = format!("service {other:?} is not served by this driver");
                Ok(Status::unimplemented(message).into_http())
            }
        };
        match answer {
            Ok(answer) => answer,
            Err(never) => match never {},
        }
    }
}
