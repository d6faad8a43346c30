package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// execInNodeMain *becomes* the command inside the node's mount namespace, so its pid, signals, exit code and open
// files are the caller's own; nothing has to be forwarded.
func execInNodeMain(args []string) error {
	fs := flag.NewFlagSet("exec-in-node", flag.ContinueOnError)
	dir := fs.String("dir", "", "cluster directory")
	keep := fs.Bool("keep", false, "do not die with the calling process")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	words := fs.Args()
	if len(words) > 1 && words[1] == "--" {
		words = append(words[:1:1], words[2:]...)
	}
	if len(words) < 2 {
		return errors.New("usage: exec-in-node --dir D NODE -- COMMAND [ARGS...]")
	}
	l, err := newLayout(*dir)
	if err != nil {
		return err
	}
	state, err := readState(l)
	if err != nil {
		return err
	}
	node, err := state.node(words[0])
	if err != nil {
		return err
	}
	program, err := exec.LookPath(words[1])
	if err != nil {
		return err
	}
	if program, err = filepath.Abs(program); err != nil {
		return err
	}
	return becomeInNode(l, node, program, words[1:], *keep)
}

func becomeInNode(l layout, node *nodeState, program string, argv []string, keep bool) error {
	parent := os.Getppid()
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	// Both the namespace and the parent-death signal belong to the thread that calls exec.
	runtime.LockOSThread()
	if node.RealMounts {
		if err := enterMountNamespace(fmt.Sprintf("/proc/%d/ns/mnt", node.MountNamespacePID)); err != nil {
			return fmt.Errorf("node %s (is it running?): %w", node.Name, err)
		}
		if err := unix.Chdir(cwd); err != nil {
			return fmt.Errorf("%s does not exist on node %s: %w", cwd, node.Name, err)
		}
	}
	if !keep {
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
			return err
		}
		if os.Getppid() != parent {
			return errors.New("the calling process has ended")
		}
	}
	env := []string{envDir + "=" + l.dir, envNode + "=" + node.Name}
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		// Some sidecars obey KUBECONFIG over their own flag and would silently run as somebody else.
		if name != "KUBECONFIG" && name != envDir && name != envNode {
			env = append(env, pair)
		}
	}
	return fmt.Errorf("exec %s: %w", program, unix.Exec(program, argv, env))
}
