// Command csi-cluster is a complete Kubernetes control plane with hollow nodes in one multi-call binary.
//
// Every component runs as a process of its own (csi-cluster kube-apiserver, csi-cluster node, ...) because
// upstream's commands share process-global state (signal handlers that panic when installed twice, feature gates,
// metric registries, the CSI plugin's driver table), and because a test must be able to kill, pause and measure one
// component alone. README.md documents every verb and the JSON that `up` prints.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
)

// A verb is one subcommand. Its error ends the process with exit code 1 and one line on stderr.
type verb struct {
	help string
	run  func(args []string) error
}

// exitCode lets a verb choose the exit code after it has already said what there is to say.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func verbs() map[string]verb {
	return map[string]verb{
		"up":         {"start a cluster and print one JSON line", upMain},
		"down":       {"stop a cluster and check that nothing is left", downMain},
		"ctl":        {"restart|kill|term|stop|start|pause|resume COMPONENT, status, add-node, remove-node", ctlMain},
		"supervise":  {"internal: the process that owns all components", superviseMain},
		"etcd":       {"component: the store", etcdMain},
		"node":       {"component: a hollow kubelet with the real CSI volume plugin", nodeMain},
		"node-host":  {"component: mount namespace and container runtime of a node", nodeHostMain},
		"mark":       {"write a named mark into the audit log", markMain},
		"requests":   {"count API requests from the audit log", requestsMain},
		"manifests":  {"list or print files of the pinned Kubernetes module", manifestsMain},
		"kubectl":    {"upstream's kubectl", kubectlMain},
		"token":      {"print a token of a ServiceAccount", tokenMain},
		"kubeconfig": {"write a kubeconfig with a ServiceAccount's token", kubeconfigMain},

		"kube-apiserver":          {"component", apiserverMain},
		"kube-controller-manager": {"component", controllerManagerMain},
		"kube-scheduler":          {"component", schedulerMain},
		"fault-proxy":             {"component: a proxy before the API server that injects faults", faultProxyMain},
		"mock-driver":             {"the CSI driver of Kubernetes' own tests", mockDriverMain},
		"kubelet":                 {"component: the kubelet of a real node", kubeletMain},
		"enclosed":                {"run a program in namespaces of its own, where a real node can live", enclosedMain},
		"enclosure-init":          {"internal: process 1 of an enclosure", enclosureInitMain},
		"enclosure-sweeper":       {"internal: cleans up behind an enclosure", enclosureSweeperMain},
		"import-images":           {"load OCI archives into a real node's container runtime", importImagesMain},
		"exec-in-node":            {"run a process inside a node's mount namespace", execInNodeMain},
	}
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: csi-cluster VERB [flags]")
	all := verbs()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(w, "  %-24s %s\n", name, all[name].help)
	}
}

func main() {
	// Tests of others want a program of that name.
	if filepath.Base(os.Args[0]) == "kubectl" {
		os.Args = append([]string{"csi-cluster", "kubectl"}, os.Args[1:]...)
	}
	if len(os.Args) < 2 {
		usage(os.Stderr)
		os.Exit(2)
	}
	name := os.Args[1]
	if name == "-h" || name == "--help" || name == "help" {
		usage(os.Stdout)
		return
	}
	v, ok := verbs()[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "csi-cluster: unknown verb %q; csi-cluster help lists them\n", name)
		os.Exit(2)
	}
	err := v.run(os.Args[2:])
	var code exitCode
	switch {
	case err == nil:
	case errors.As(err, &code):
		os.Exit(int(code))
	default:
		fmt.Fprintf(os.Stderr, "csi-cluster %s: %v\n", name, err)
		os.Exit(1)
	}
}
