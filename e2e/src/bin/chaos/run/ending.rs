//! The end of a run, after the users and faults.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use e2e::api::text;
use e2e::suite::say;
use serde_json::json;

use super::{Break, Run};
use crate::acts::administrator::remove;
use crate::audit::{State, Volume};
use crate::observe;
use crate::stage::{DRIVER, node, node_id};

impl Run<'_, '_> {
    /// Reads the state; retries while the driver is restarting.
    fn look_until_seen(&mut self) -> Result<State> {
        let began = Instant::now();
        loop {
            match self.look() {
                Err(_) if began.elapsed() < self.options.quiet => {
                    self.rest(Duration::from_millis(500))?;
                }
                seen => return seen,
            }
        }
    }

    /// Does the attach/detach controller's part: deletes the VolumeAttachments that no claim uses
    /// any more.
    pub(super) fn detach_for_the_gone(&mut self) -> Result<()> {
        let state = self.look_until_seen()?;
        for object in &state.attachments {
            let volume = state.volumes.iter().find(|it| it.name == object.volume);
            let used = volume.is_some_and(|volume| {
                let mut claims = state.claims.iter();
                claims.any(|it| it.uid == volume.claim && !it.terminating)
            });
            if !used {
                let path = format!("{}/{}", observe::ATTACHMENTS, object.name);
                self.stage.api.delete(&path)?;
            }
        }
        Ok(())
    }

    pub(super) fn delete_all(&mut self) -> Result<()> {
        let state = self.look_until_seen()?;
        let api = &self.stage.api;
        for object in &state.attachments {
            api.delete(&format!("{}/{}", observe::ATTACHMENTS, object.name))?;
        }
        for namespace in &state.namespaces {
            api.delete(&format!("{}/{}", observe::NAMESPACES, namespace.name))?;
        }
        // PersistentVolumes that outlive their claims, or have none.
        for volume in { state.volumes.iter() }.filter(|it| it.retained || it.claim.is_empty()) {
            if !volume.retained {
                self.ledger.free(&volume.handle);
            }
            api.delete(&format!("{}/{}", observe::VOLUMES, volume.name))?;
        }
        self.delete_contents()
    }

    /// Deletes contents that are not deleted with their VolumeSnapshots.
    fn delete_contents(&mut self) -> Result<()> {
        let began = Instant::now();
        loop {
            let mut refused = Ok(());
            for content in observe::contents_as_they_are(&self.stage.api)? {
                let retained = text(&content, "/spec/deletionPolicy") == Some("Retain");
                let unbound = text(&content, "/spec/volumeSnapshotRef/uid").is_none();
                if (retained || unbound) && !observe::terminating(&content) {
                    refused = refused.and(remove(&self.stage.api, &content, &self.ledger));
                }
            }
            // Contents change while their VolumeSnapshots are being deleted.
            if refused.is_ok() || began.elapsed() > self.options.quiet {
                return refused;
            }
            self.rest(Duration::from_millis(500))?;
        }
    }

    /// Does deliberate damage.
    pub(super) fn damage(&mut self, broken: Break) -> Result<()> {
        let state = self.look_until_seen()?;
        // A volume in use: nobody would miss one that is deleted anyway.
        let used = |volume: &&Volume| {
            let mut claims = state.claims.iter();
            claims.any(|it| it.uid == volume.claim && it.bound && !it.terminating)
        };
        let handle = state.volumes.iter().find(used).map(|it| it.handle.clone());
        let handle = handle.context("a volume to do damage to")?;
        match broken {
            Break::Volume => {
                let name = "pvc-00000000-made-by-hand".to_owned();
                self.driver.make_volumes(&[name], 1 << 20)?;
            }
            Break::Forget => {
                let body = json!({ "volumes": [handle] });
                self.driver.ask("POST", "/forget", Some(&body))?;
            }
            Break::Snapshot => {
                self.driver.take_snapshot("made-by-nobody", &handle)?;
            }
            Break::Attachment => {
                let node = node_id(&node(0));
                let body = json!({ "volume": handle, "node": node, "attached": true });
                self.driver.ask("POST", "/attachment", Some(&body))?;
            }
        }
        say(&format!(
            "  damage is done on purpose: {broken:?}, {DRIVER}"
        ));
        Ok(())
    }
}
