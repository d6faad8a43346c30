//! Node deployment: asks how much room there is, and writes this node on a claim.

use csi_proto::csi::GetCapacityRequest;
use csi_proto::csi::controller_client::ControllerClient;
use sidecar::csi::call;
use sidecar::error::Chain;
use sidecar::kube::api::ApiError;

use super::api::{CLAIMS, edit, key};
use super::executor::Executor;
use crate::model::Claim;
use crate::plan::outcome::RpcError;
use crate::plan::ownership::{Selection, select};

impl Executor {
    pub(super) async fn ask_for_room(&self, question: GetCapacityRequest) -> Result<i64, RpcError> {
        let channel = self.driver.channel().await?;
        let mut client = ControllerClient::new(channel);
        let answer = call(self.driver.timeout(), question, async |question| {
            client.get_capacity(question).await
        });
        let answer = answer.await.map_err(|status| RpcError::from(&status))?;
        Ok(answer.available_capacity)
    }

    /// Writes `node` on the claim, unless somebody else was faster.
    pub(super) async fn take_claim(
        &self,
        claim: &Claim,
        node: &str,
    ) -> Result<Selection, ApiError> {
        let key = key(Some(&claim.namespace), &claim.name)?;
        let write = self.informers.claims.begin_write(&key);
        let mut selection = Selection::Gone;
        let written = edit(&self.api, &CLAIMS, &key, |object| {
            selection = select(object, &claim.uid, node);
            selection == Selection::Selected
        });
        let taken = write.answered(&written.await?);
        taken.map_err(|error| ApiError::unreadable(&Chain(&error)))?;
        Ok(selection)
    }
}
