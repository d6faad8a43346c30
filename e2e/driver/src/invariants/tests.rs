use super::*;

/// Builds records: each call lasts from one tick to the next.
#[derive(Default)]
struct Story {
    calls: Vec<Call>,
    time: u64,
}

impl Story {
    fn call(&mut self, method: &str, volume: &str, node: &str) -> &mut Call {
        self.time += 10;
        self.calls.push(Call {
            instance: "d/1".to_owned(),
            seq: self.time / 10,
            method: method.to_owned(),
            volume: volume.to_owned(),
            node: node.to_owned(),
            start_ns: self.time,
            end_ns: Some(self.time + 5),
            deadline_ms: Some(1000),
            code: Some("OK".to_owned()),
            ..Call::default()
        });
        self.calls.last_mut().unwrap()
    }

    fn create(&mut self, name: &str, volume: &str, parameters: &str, request: &str) -> &mut Call {
        let call = self.call("CreateVolume", volume, "");
        call.name = name.to_owned();
        call.parameters_hash = parameters.to_owned();
        call.request_hash = request.to_owned();
        call
    }

    fn stage(&mut self, node: &str) -> &mut Call {
        let call = self.call("NodeStageVolume", "v1", node);
        call.staging = "/s".to_owned();
        call
    }

    fn unstage(&mut self, node: &str) -> &mut Call {
        let call = self.call("NodeUnstageVolume", "v1", node);
        call.staging = "/s".to_owned();
        call
    }

    fn publish(&mut self, node: &str) -> &mut Call {
        let call = self.call("NodePublishVolume", "v1", node);
        call.staging = "/s".to_owned();
        call.target = "/t".to_owned();
        call
    }

    fn unpublish(&mut self, node: &str) -> &mut Call {
        let call = self.call("NodeUnpublishVolume", "v1", node);
        call.target = "/t".to_owned();
        call
    }

    fn attach(&mut self, node: &str) -> &mut Call {
        self.call("ControllerPublishVolume", "v1", node)
    }

    fn detach(&mut self, node: &str) -> &mut Call {
        self.call("ControllerUnpublishVolume", "v1", node)
    }

    fn found(&self) -> Vec<Invariant> {
        self.found_with(&Options::default())
    }

    fn found_with(&self, options: &Options) -> Vec<Invariant> {
        check(&self.calls, options)
            .iter()
            .map(|violation| violation.invariant)
            .collect()
    }
}

fn in_doubt(call: &mut Call) {
    call.code = None;
    call.caller_gone = true;
}

fn refused(call: &mut Call) {
    call.code = Some("INTERNAL".to_owned());
}

#[test]
fn a_whole_life_breaks_nothing() {
    let mut story = Story::default();
    story.create("pvc-1", "v1", "p", "r");
    story.attach("n1");
    story.stage("n1");
    story.publish("n1");
    story.call("ControllerExpandVolume", "v1", "");
    story.unpublish("n1");
    story.unstage("n1");
    story.detach("n1");
    story.call("DeleteVolume", "v1", "");
    story.create("pvc-1", "v2", "other", "other");
    assert_eq!(story.found(), []);
    assert_eq!(
        story.found_with(&Options {
            deadlines: true,
            ..Options::default()
        }),
        []
    );
}

#[test]
fn two_controller_calls_for_one_volume_at_once() {
    let mut story = Story::default();
    story.attach("n1").end_ns = Some(100);
    story.call("ControllerExpandVolume", "v1", "");
    assert_eq!(story.found(), [Invariant::Overlap]);
    story.calls[0].end_ns = Some(20);
    assert_eq!(story.found(), [], "one ends as the other begins");
    story.calls[1].volume = "v2".to_owned();
    story.calls[0].end_ns = Some(100);
    assert_eq!(story.found(), []);
}

#[test]
fn attaching_to_two_nodes_at_once_is_allowed_twice_to_one_is_not() {
    let mut story = Story::default();
    story.attach("n1").end_ns = Some(100);
    story.attach("n2");
    assert_eq!(story.found(), []);
    story.detach("n1");
    assert_eq!(story.found(), [Invariant::Overlap]);
}

#[test]
fn two_creates_of_one_name_at_once() {
    let mut story = Story::default();
    story.create("pvc-1", "", "p", "r").end_ns = Some(100);
    story.create("pvc-1", "", "p", "r");
    assert_eq!(story.found(), [Invariant::Overlap]);
}

#[test]
fn a_call_that_its_caller_gave_up_is_over() {
    let mut story = Story::default();
    let first = story.create("pvc-1", "v1", "p", "r");
    in_doubt(first);
    (first.end_ns, first.work_end_ns) = (Some(15), Some(100));
    story.create("pvc-1", "v1", "p", "r");
    assert_eq!(story.found(), []);
}

#[test]
fn a_call_cut_off_by_the_drivers_death_ends_with_it() {
    let mut story = Story::default();
    story.attach("n1");
    story.calls[0].end_ns = None;
    story.calls[0].code = None;
    story.attach("n1").instance = "d/2".to_owned();
    assert_eq!(story.found(), []);
}

#[test]
fn publishing_before_staging_and_staging_before_attaching() {
    let mut story = Story::default();
    story.publish("n1");
    assert_eq!(story.found(), [Invariant::NodeOrder]);
    let mut story = Story::default();
    in_doubt(story.stage("n1"));
    story.publish("n1");
    assert_eq!(
        story.found(),
        [Invariant::NodeOrder],
        "staging was not confirmed"
    );
    let mut story = Story::default();
    story.attach("n2");
    story.stage("n1");
    assert_eq!(
        story.found(),
        [Invariant::NodeOrder],
        "attached to another node"
    );
    let mut story = Story::default();
    story.stage("n1");
    story.publish("n1").staging.clear();
    assert_eq!(
        story.found(),
        [Invariant::NodeOrder],
        "staged, but not published from there"
    );
}

#[test]
fn inline_volumes_are_published_without_anything_before() {
    let mut story = Story::default();
    story.call("ControllerPublishVolume", "other", "n1");
    story.publish("n1").staging.clear();
    story.unpublish("n1");
    assert_eq!(story.found(), []);
}

#[test]
fn unstaging_while_published() {
    let mut story = Story::default();
    story.stage("n1");
    story.publish("n1");
    story.unstage("n1");
    assert_eq!(story.found(), [Invariant::NodeOrder]);
    let mut story = Story::default();
    story.stage("n1");
    in_doubt(story.publish("n1"));
    story.unstage("n1");
    assert_eq!(
        story.found(),
        [Invariant::NodeOrder],
        "it may have been published"
    );
    let mut story = Story::default();
    story.stage("n1");
    refused(story.publish("n1"));
    story.unstage("n1");
    assert_eq!(story.found(), [], "it was refused");
}

#[test]
fn detaching_while_mounted() {
    let mut story = Story::default();
    story.attach("n1");
    story.stage("n1");
    story.detach("n1");
    assert_eq!(story.found(), [Invariant::DetachInUse]);
    let lost = Options {
        nodes_were_lost: true,
        ..Options::default()
    };
    assert_eq!(story.found_with(&lost), []);
}

#[test]
fn deleting_while_attached_or_mounted() {
    let mut story = Story::default();
    story.attach("n1");
    story.call("DeleteVolume", "v1", "");
    assert_eq!(story.found(), [Invariant::DeleteInUse]);
    let mut story = Story::default();
    in_doubt(story.attach("n1"));
    story.call("DeleteVolume", "v1", "");
    assert_eq!(
        story.found(),
        [Invariant::DeleteInUse],
        "it may be attached"
    );
    let mut story = Story::default();
    story.attach("n1");
    in_doubt(story.detach("n1"));
    story.call("DeleteVolume", "v1", "");
    assert_eq!(
        story.found(),
        [Invariant::DeleteInUse],
        "detaching was not confirmed"
    );
    let mut story = Story::default();
    refused(story.attach("n1"));
    story.call("DeleteVolume", "v1", "");
    assert_eq!(story.found(), []);
    let mut story = Story::default();
    story.stage("n1");
    story.call("DeleteVolume", "v1", "");
    assert_eq!(
        story.found(),
        [Invariant::DeleteInUse],
        "without attachments mounts count"
    );
}

#[test]
fn retries_keep_their_parameters_and_in_doubt_everything() {
    let retry = |doubt: fn(&mut Call), parameters: &str, request: &str| {
        let mut story = Story::default();
        doubt(story.create("pvc-1", "", "p", "r"));
        story.create("pvc-1", "v1", parameters, request);
        story.found()
    };
    assert_eq!(retry(in_doubt, "p", "r"), []);
    assert_eq!(retry(in_doubt, "p", "moved"), [Invariant::RetryChanged]);
    assert_eq!(retry(refused, "p", "moved"), []);
    assert_eq!(retry(refused, "other", "moved"), [Invariant::RetryChanged]);
    let aborted: fn(&mut Call) = |call| call.code = Some("ABORTED".to_owned());
    assert_eq!(retry(aborted, "p", "moved"), [Invariant::RetryChanged]);
}

#[test]
fn a_call_without_deadline() {
    let mut story = Story::default();
    story.attach("n1").deadline_ms = None;
    assert_eq!(story.found(), []);
    let options = Options {
        deadlines: true,
        ..Options::default()
    };
    assert_eq!(story.found_with(&options), [Invariant::NoDeadline]);
}

#[test]
fn violations_name_the_calls() {
    let mut story = Story::default();
    story.attach("n1");
    story.call("DeleteVolume", "v1", "");
    let text = check(&story.calls, &Options::default())[0].to_string();
    assert_eq!(
        text,
        "DeleteInUse: v1 deleted while in use on n1 (d/1#1, d/1#2)"
    );
}
