package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// options is what `up` was asked for; it travels to the supervisor as JSON.
type options struct {
	Dir          string        `json:"dir"`
	Nodes        int           `json:"nodes"`
	Controllers  string        `json:"controllers"`
	Audit        bool          `json:"audit"`
	AuditMode    string        `json:"auditMode"`
	Proxy        bool          `json:"proxy"`
	StatusPeriod time.Duration `json:"statusPeriod"`
	FeatureGates string        `json:"featureGates,omitempty"`
	Timeout      time.Duration `json:"timeout"`
	RealNode     bool          `json:"realNode,omitempty"`
	Runtime      string        `json:"runtime,omitempty"`

	APIServerArgs         []string `json:"apiserverArgs,omitempty"`
	ControllerManagerArgs []string `json:"controllerManagerArgs,omitempty"`
	SchedulerArgs         []string `json:"schedulerArgs,omitempty"`
}

// parseFlags parses and says one line about a bad flag (the caller prints it), or the whole help when asked for it.
func parseFlags(fs *flag.FlagSet, args []string) error {
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Printf("flags of csi-cluster %s:\n", fs.Name())
		fs.SetOutput(os.Stdout)
		fs.PrintDefaults()
		return exitCode(0)
	}
	if err != nil {
		return fmt.Errorf("%w (csi-cluster %s -h lists the flags)", err, fs.Name())
	}
	return nil
}

// listFlag collects the values of a flag that may be repeated.
type listFlag struct{ values *[]string }

func (f listFlag) String() string     { return "" }
func (f listFlag) Set(s string) error { *f.values = append(*f.values, s); return nil }

// onOff is a flag that is spelled --audit on or --audit off.
type onOff struct{ value *bool }

func (f onOff) String() string { return "" }
func (f onOff) Set(s string) error {
	switch s {
	case "on":
		*f.value = true
	case "off":
		*f.value = false
	default:
		return fmt.Errorf("want on or off, got %q", s)
	}
	return nil
}

func (o *options) register(fs *flag.FlagSet) {
	o.Audit = true
	fs.StringVar(&o.Dir, "dir", "", "directory that holds everything of this cluster (required)")
	fs.IntVar(&o.Nodes, "nodes", 1, "number of hollow nodes")
	fs.StringVar(&o.Controllers, "controllers", "all", "controllers to run: all, or storage for the short list")
	fs.Var(onOff{&o.Audit}, "audit", "write the audit log: on or off (default on)")
	fs.StringVar(&o.AuditMode, "audit-mode", "blocking", "blocking (exact counts) or batch (cheaper)")
	fs.Var(onOff{&o.Proxy}, "proxy", "run the fault proxy: on or off (default off)")
	fs.BoolVar(&o.RealNode, "real-node", false, "one node that runs containers, instead of hollow ones (in an enclosure)")
	fs.StringVar(&o.Runtime, "runtime", "", "folder with the programs of a real node: bin/ (containerd, runc, ...) and cni/")
	fs.DurationVar(&o.StatusPeriod, "status-period", 500*time.Millisecond, "kubelet's node status period")
	fs.StringVar(&o.FeatureGates, "feature-gates", "", "feature gates for every Kubernetes component")
	fs.DurationVar(&o.Timeout, "timeout", 3*time.Minute, "give up when the cluster is not ready by then")
	fs.Var(listFlag{&o.APIServerArgs}, "apiserver-arg", "one more kube-apiserver flag (repeatable)")
	fs.Var(listFlag{&o.ControllerManagerArgs}, "controller-manager-arg", "one more kube-controller-manager flag (repeatable)")
	fs.Var(listFlag{&o.SchedulerArgs}, "scheduler-arg", "one more kube-scheduler flag (repeatable)")
}

func (o *options) validate() error {
	switch {
	case o.RealNode:
		return o.validateReal()
	case o.Nodes < 0 || o.Nodes > 200:
		return fmt.Errorf("--nodes %d: want 0 to 200", o.Nodes)
	case o.Controllers != "all" && o.Controllers != "storage":
		return fmt.Errorf("--controllers %q: want all or storage", o.Controllers)
	case o.AuditMode != "blocking" && o.AuditMode != "batch":
		return fmt.Errorf("--audit-mode %q: want blocking or batch", o.AuditMode)
	case o.StatusPeriod <= 0:
		return fmt.Errorf("--status-period %s: want more than zero", o.StatusPeriod)
	}
	return nil
}
