//! The changes to each chart. Values are YAML.

/// A driver's chart.
pub(super) struct Chart {
    /// `name` in its Chart.yaml.
    pub(super) name: &'static str,
    /// Values that the chart needs to render its sidecars.
    pub(super) theirs: &'static str,
    /// Values that only change the images, as docs/swap.md has them.
    pub(super) swap: &'static str,
    /// Values of our chart inside it.
    pub(super) ours: &'static str,
    pub(super) pods: [Pod; 2],
    /// Programs that must run afterwards.
    pub(super) programs: &'static [&'static str],
}

/// A workload's template.
pub(super) struct Pod {
    pub(super) file: &'static str,
    /// The workload's part of our templates' names.
    pub(super) place: &'static str,
    /// Beginning of the line with a label of its pods; ours is included beside it.
    pub(super) label: &'static str,
    /// Containers and volumes to remove.
    pub(super) without: &'static [&'static str],
    /// Our template with the volumes that the pod lacks; empty if it lacks none.
    pub(super) volumes: &'static str,
}

const WITH_SNAPSHOTS: &[&str] = &[
    "csi-provisioner",
    "csi-attacher",
    "csi-resizer",
    "csi-snapshotter",
    "csi-node-driver-registrar",
];

pub(super) const CHARTS: &[Chart] = &[
    Chart {
        name: "aws-ebs-csi-driver",
        theirs: "",
        swap: "
sidecars:
  provisioner: {image: {repository: registry.example.com/storage/csi-provisioner, tag: 1.2.3}}
  attacher: {image: {repository: registry.example.com/storage/csi-attacher, tag: 1.2.3}}
  resizer: {image: {repository: registry.example.com/storage/csi-resizer, tag: 1.2.3}}
  snapshotter: {image: {repository: registry.example.com/storage/csi-snapshotter, tag: 1.2.3}}
  livenessProbe: {image: {repository: registry.example.com/storage/livenessprobe, tag: 1.2.3}}
  nodeDriverRegistrar: {image: {repository: registry.example.com/storage/csi-node-driver-registrar, tag: 1.2.3}}
",
        ours: "
csi-sidecars:
  driver: {name: ebs.csi.aws.com}
  image: {registry: registry.example.com/storage}
  features: {snapshots: true, volumeAttributesClass: true}
  resizer: {enabled: true}
  snapshotter: {enabled: true}
  # The driver's container declares it.
  livenessprobe: {declarePort: false}
  controller:
    create: false
    # As the pod's security context has it.
    user: 1000
    socket: {directory: /var/lib/csi/sockets/pluginproxy}
    serviceAccount: {create: false, name: ebs-csi-controller-sa}
  node:
    create: false
    serviceAccount: {create: false, name: ebs-csi-node-sa}
",
        pods: [
            Pod {
                file: "controller.yaml",
                place: "controller",
                label: "app:",
                without: &["csi-provisioner", "csi-attacher", "csi-snapshotter", "csi-resizer", "liveness-probe"],
                volumes: "apiToken.volume",
            },
            Pod {
                file: "_node.tpl",
                place: "node",
                label: "app:",
                without: &["node-driver-registrar", "liveness-probe", "registration-dir"],
                volumes: "node.volumes",
            },
        ],
        programs: WITH_SNAPSHOTS,
    },
    Chart {
        name: "azuredisk-csi-driver",
        theirs: "snapshot: {enabled: true}",
        swap: "
image:
  csiProvisioner: {repository: registry.example.com/storage/csi-provisioner, tag: 1.2.3}
  csiAttacher: {repository: registry.example.com/storage/csi-attacher, tag: 1.2.3}
  csiResizer: {repository: registry.example.com/storage/csi-resizer, tag: 1.2.3}
  livenessProbe: {repository: registry.example.com/storage/livenessprobe, tag: 1.2.3}
  nodeDriverRegistrar: {repository: registry.example.com/storage/csi-node-driver-registrar, tag: 1.2.3}
snapshot:
  image:
    csiSnapshotter: {repository: registry.example.com/storage/csi-snapshotter, tag: 1.2.3}
    csiSnapshotController: {repository: registry.example.com/storage/snapshot-controller, tag: 1.2.3}
",
        // Both kinds of pods are in the node's network.
        ours: "
csi-sidecars:
  driver: {name: disk.csi.azure.com}
  image: {registry: registry.example.com/storage}
  features: {snapshots: true, volumeAttributesClass: true}
  attacher: {port: 29611}
  provisioner: {port: 29612}
  resizer: {enabled: true, port: 29613}
  snapshotter: {enabled: true, port: 29614}
  registrar: {port: 29615}
  controller:
    create: false
    runAsRoot: true
    bindAddress: 127.0.0.1
    livenessprobe: {port: 29602}
    serviceAccount: {create: false, name: csi-azuredisk-controller-sa}
  node:
    create: false
    bindAddress: 127.0.0.1
    livenessprobe: {port: 29603, declarePort: false}
    serviceAccount: {create: false, name: csi-azuredisk-node-sa}
",
        pods: [
            Pod {
                file: "csi-azuredisk-controller.yaml",
                place: "controller",
                label: "app:",
                without: &["csi-provisioner", "csi-attacher", "csi-snapshotter", "csi-resizer", "liveness-probe"],
                volumes: "apiToken.volume",
            },
            Pod {
                file: "csi-azuredisk-node.yaml",
                place: "node",
                label: "app:",
                without: &["node-driver-registrar", "liveness-probe"],
                volumes: "",
            },
        ],
        programs: WITH_SNAPSHOTS,
    },
    Chart {
        name: "ceph-csi-rbd",
        theirs: "",
        swap: "
provisioner:
  provisioner: {image: {repository: registry.example.com/storage/csi-provisioner, tag: 1.2.3}}
  attacher: {image: {repository: registry.example.com/storage/csi-attacher, tag: 1.2.3}}
  resizer: {image: {repository: registry.example.com/storage/csi-resizer, tag: 1.2.3}}
  snapshotter: {image: {repository: registry.example.com/storage/csi-snapshotter, tag: 1.2.3}}
nodeplugin:
  registrar: {image: {repository: registry.example.com/storage/csi-node-driver-registrar, tag: 1.2.3}}
",
        ours: "
csi-sidecars:
  driver: {name: rbd.csi.ceph.com}
  image: {registry: registry.example.com/storage}
  features: {snapshots: true, cloning: true}
  secrets: {access: all}
  resizer: {enabled: true}
  snapshotter: {enabled: true}
  livenessprobe: {enabled: false}
  registrar: {port: 9819}
  controller:
    create: false
    runAsRoot: true
    socket: {file: csi-provisioner.sock}
    serviceAccount: {create: false, name: '{{ .Release.Name }}-ceph-csi-rbd-provisioner'}
  node:
    create: false
    serviceAccount: {create: false, name: '{{ .Release.Name }}-ceph-csi-rbd-nodeplugin'}
",
        pods: [
            Pod {
                file: "provisioner-deployment.yaml",
                place: "controller",
                label: "app:",
                without: &["csi-provisioner", "csi-attacher", "csi-snapshotter", "csi-resizer"],
                volumes: "apiToken.volume",
            },
            Pod {
                file: "nodeplugin-daemonset.yaml",
                place: "node",
                label: "app:",
                without: &["driver-registrar"],
                volumes: "",
            },
        ],
        programs: WITH_SNAPSHOTS,
    },
    Chart {
        name: "ceph-csi-cephfs",
        theirs: "",
        swap: "
provisioner:
  provisioner: {image: {repository: registry.example.com/storage/csi-provisioner, tag: 1.2.3}}
  resizer: {image: {repository: registry.example.com/storage/csi-resizer, tag: 1.2.3}}
  snapshotter: {image: {repository: registry.example.com/storage/csi-snapshotter, tag: 1.2.3}}
nodeplugin:
  registrar: {image: {repository: registry.example.com/storage/csi-node-driver-registrar, tag: 1.2.3}}
",
        ours: "
csi-sidecars:
  driver: {name: cephfs.csi.ceph.com, attachRequired: false, publishes: false}
  image: {registry: registry.example.com/storage}
  features: {snapshots: true, cloning: true}
  secrets: {access: all}
  attacher: {enabled: false}
  resizer: {enabled: true}
  snapshotter: {enabled: true}
  livenessprobe: {enabled: false}
  registrar: {port: 9829}
  controller:
    create: false
    runAsRoot: true
    socket: {file: csi-provisioner.sock}
    serviceAccount: {create: false, name: '{{ .Release.Name }}-ceph-csi-cephfs-provisioner'}
  node:
    create: false
    serviceAccount: {create: false, name: '{{ .Release.Name }}-ceph-csi-cephfs-nodeplugin'}
",
        pods: [
            Pod {
                file: "provisioner-deployment.yaml",
                place: "controller",
                label: "app:",
                without: &["csi-provisioner", "csi-snapshotter", "csi-resizer"],
                volumes: "apiToken.volume",
            },
            Pod {
                file: "nodeplugin-daemonset.yaml",
                place: "node",
                label: "app:",
                without: &["driver-registrar"],
                volumes: "",
            },
        ],
        programs: &["csi-provisioner", "csi-resizer", "csi-snapshotter", "csi-node-driver-registrar"],
    },
    Chart {
        name: "democratic-csi",
        theirs: "
csiDriver: {name: org.democratic-csi.iscsi}
driver: {config: {driver: freenas-iscsi}}
",
        swap: "
controller:
  externalProvisioner: {image: {registry: registry.example.com/storage/csi-provisioner, tag: 1.2.3}}
  externalAttacher: {image: {registry: registry.example.com/storage/csi-attacher, tag: 1.2.3}}
  externalResizer: {image: {registry: registry.example.com/storage/csi-resizer, tag: 1.2.3}}
  externalSnapshotter: {image: {registry: registry.example.com/storage/csi-snapshotter, tag: 1.2.3}}
node:
  driverRegistrar: {image: {registry: registry.example.com/storage/csi-node-driver-registrar, tag: 1.2.3}}
",
        // Values can leave out its own sidecars of the controller.
        ours: "
controller:
  externalProvisioner: {enabled: false}
  externalAttacher: {enabled: false}
  externalResizer: {enabled: false}
  externalSnapshotter: {enabled: false}
csi-sidecars:
  driver: {name: org.democratic-csi.iscsi}
  image: {registry: registry.example.com/storage}
  features: {snapshots: true, cloning: true}
  secrets: {access: all}
  resizer: {enabled: true}
  snapshotter: {enabled: true}
  livenessprobe: {enabled: false}
  socket: {directory: /csi-data}
  controller:
    create: false
    runAsRoot: true
    serviceAccount: {create: false, name: '{{ .Release.Name }}-democratic-csi-controller-sa'}
  node:
    create: false
    serviceAccount: {create: false, name: '{{ .Release.Name }}-democratic-csi-node-sa'}
",
        pods: [
            Pod {
                file: "controller.yaml",
                place: "controller",
                label: "app.kubernetes.io/csi-role:",
                without: &[],
                volumes: "apiToken.volume",
            },
            Pod {
                file: "node.yaml",
                place: "node",
                label: "app.kubernetes.io/csi-role:",
                without: &["driver-registrar"],
                volumes: "",
            },
        ],
        programs: WITH_SNAPSHOTS,
    },
    Chart {
        name: "hcloud-csi",
        theirs: "",
        swap: "
controller:
  image:
    csiProvisioner: {name: registry.example.com/storage/csi-provisioner, tag: 1.2.3}
    csiAttacher: {name: registry.example.com/storage/csi-attacher, tag: 1.2.3}
    csiResizer: {name: registry.example.com/storage/csi-resizer, tag: 1.2.3}
    livenessProbe: {name: registry.example.com/storage/livenessprobe, tag: 1.2.3}
node:
  image:
    csiNodeDriverRegistrar: {name: registry.example.com/storage/csi-node-driver-registrar, tag: 1.2.3}
    livenessProbe: {name: registry.example.com/storage/livenessprobe, tag: 1.2.3}
",
        // Its pods are in the node's network only on request.
        ours: "
node: {hostNetwork: true}
csi-sidecars:
  driver: {name: csi.hetzner.cloud}
  image: {registry: registry.example.com/storage}
  resizer: {enabled: true}
  livenessprobe: {declarePort: false}
  socket: {directory: /run/csi, file: socket}
  controller:
    create: false
    runAsRoot: true
    serviceAccount: {create: false, name: '{{ .Release.Name }}-hcloud-csi-controller'}
  node:
    create: false
    serviceAccount: {create: false}
",
        pods: [
            Pod {
                file: "controller/deployment.yaml",
                place: "controller",
                label: "app.kubernetes.io/component:",
                without: &["csi-attacher", "csi-resizer", "csi-provisioner", "liveness-probe"],
                volumes: "apiToken.volume",
            },
            Pod {
                file: "node/daemonset.yaml",
                place: "node",
                label: "app.kubernetes.io/component:",
                without: &["csi-node-driver-registrar", "liveness-probe", "registration-dir"],
                volumes: "node.volumes",
            },
        ],
        programs: &["csi-provisioner", "csi-attacher", "csi-resizer", "csi-node-driver-registrar"],
    },
];
