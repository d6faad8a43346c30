package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func runCobra(cmd *cobra.Command, args []string) error {
	cmd.SetArgs(args)
	if code := cli.Run(cmd); code != 0 {
		return exitCode(code)
	}
	return nil
}

func apiserverMain(args []string) error {
	return runCobra(apiserver.NewAPIServerCommand(), args)
}

func controllerManagerMain(args []string) error {
	return runCobra(controllermanager.NewControllerManagerCommand(), args)
}

func schedulerMain(args []string) error {
	return runCobra(scheduler.NewSchedulerCommand(), args)
}

// kubectlMain runs kubectl, with --dir D in front for the cluster's administrator. os.Args is shifted because kubectl
// reads it itself (verbosity, plugins). The user's own ~/.kube is neither read nor written.
func kubectlMain(args []string) error {
	if len(args) > 1 && args[0] == "--dir" {
		l, err := newLayout(args[1])
		if err != nil {
			return err
		}
		if err := os.Setenv("KUBECONFIG", l.kubeconfig(adminUser)); err != nil {
			return err
		}
		args = args[2:]
	}
	for name, value := range map[string]string{
		"KUBECACHEDIR": filepath.Join(os.TempDir(), fmt.Sprintf("csi-cluster-kubectl-%d", os.Getuid())),
		"KUBERC":       "off",
	} {
		if os.Getenv(name) == "" {
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
	}
	os.Args = append([]string{"kubectl"}, args...)
	if _, err := logs.GlogSetter(kubectlcmd.GetLogVerbosity(os.Args)); err != nil {
		return err
	}
	if err := cli.RunNoErrOutput(kubectlcmd.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return nil
}

// ports are all TCP ports of a cluster's control plane, on 127.0.0.1 if nothing else is said.
type ports struct {
	etcdClient, etcdPeer, apiserver, controllerManager, scheduler, proxy, proxyControl int
	// apiHost is where the API server listens, for pods' sake on the first service address if there are real ones.
	apiHost string
}

func (p ports) apiserverURL() string { return fmt.Sprintf("https://%s:%d", p.apiHost, p.apiserver) }

func loopback(scheme string, port int) string { return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port) }

func etcdArgs(l layout, p ports) []string {
	return []string{
		"--data-dir=" + l.etcdData(),
		"--client-url=" + loopback("http", p.etcdClient),
		"--peer-url=" + loopback("http", p.etcdPeer),
	}
}

func apiserverArgs(l layout, p ports, o options) []string {
	args := []string{
		"--etcd-servers=" + loopback("http", p.etcdClient),
		"--bind-address=" + p.apiHost,
		"--advertise-address=" + p.apiHost,
		fmt.Sprintf("--secure-port=%d", p.apiserver),
		"--kubelet-preferred-address-types=InternalIP",
		"--tls-cert-file=" + l.pki("serving.crt"),
		"--tls-private-key-file=" + l.pki("serving.key"),
		"--client-ca-file=" + l.caFile(),
		"--token-auth-file=" + l.pki("tokens.csv"),
		"--service-account-key-file=" + l.pki("sa.pub"),
		"--service-account-signing-key-file=" + l.pki("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range=" + serviceRange,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--endpoint-reconciler-type=none",
		"--allow-privileged=true",
		"--profiling=true",
	}
	if o.Audit {
		args = append(args,
			"--audit-policy-file="+l.auditPolicy(),
			"--audit-log-path="+l.auditLog(),
			"--audit-log-format=json",
			"--audit-log-mode="+o.AuditMode,
			// Rotation would cut a count in two.
			"--audit-log-maxsize=100000",
		)
		if o.AuditMode == "batch" {
			args = append(args, "--audit-log-batch-max-wait=200ms")
		}
	}
	return append(o.gates(args), o.APIServerArgs...)
}

// storageControllers is the shortest list with which storage scenarios work (pods, claims, workload owners, RBAC).
const storageControllers = "persistentvolume-binder-controller,persistentvolume-attach-detach-controller," +
	"persistentvolume-expander-controller,persistentvolumeclaim-protection-controller," +
	"persistentvolume-protection-controller,volumeattributesclass-protection-controller," +
	"ephemeral-volume-controller,garbage-collector-controller,namespace-controller,serviceaccount-controller," +
	"serviceaccount-token-controller,root-ca-certificate-publisher-controller,node-lifecycle-controller," +
	"taint-eviction-controller,pod-garbage-collector-controller,statefulset-controller,daemonset-controller," +
	"deployment-controller,replicaset-controller,clusterrole-aggregation-controller"

func controllerManagerArgs(l layout, p ports, o options) []string {
	args := []string{
		"--kubeconfig=" + l.kubeconfig(controllerManagerUser),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", p.controllerManager),
		"--tls-cert-file=" + l.pki("serving.crt"),
		"--tls-private-key-file=" + l.pki("serving.key"),
		"--leader-elect=false",
		// Without it the node lifecycle controller lacks rights under RBAC and nothing is ever scheduled.
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + l.pki("sa.key"),
		"--root-ca-file=" + l.caFile(),
		"--attach-detach-reconcile-sync-period=5s",
		"--pvclaimbinder-sync-period=15s",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
	if o.Controllers == "storage" {
		args = append(args, "--controllers="+storageControllers)
	}
	return append(o.gates(args), o.ControllerManagerArgs...)
}

func schedulerArgs(l layout, p ports, o options) []string {
	kubeconfig := l.kubeconfig(schedulerUser)
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", p.scheduler),
		"--tls-cert-file=" + l.pki("serving.crt"),
		"--tls-private-key-file=" + l.pki("serving.key"),
		"--leader-elect=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
	return append(o.gates(args), o.SchedulerArgs...)
}

func faultProxyArgs(l layout, p ports) []string {
	return []string{
		fmt.Sprintf("--listen=127.0.0.1:%d", p.proxy),
		fmt.Sprintf("--control=127.0.0.1:%d", p.proxyControl),
		"--target=" + p.apiserverURL(),
		"--ca-file=" + l.caFile(),
		"--cert-file=" + l.pki("serving.crt"),
		"--key-file=" + l.pki("serving.key"),
	}
}

func (o options) gates(args []string) []string {
	if o.FeatureGates != "" {
		args = append(args, "--feature-gates="+o.FeatureGates)
	}
	return args
}
