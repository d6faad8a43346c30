package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// layout names every file of a cluster below its directory D.
type layout struct{ dir string }

// maxUnixPath is the longest path that fits sockaddr_un with its closing zero.
const maxUnixPath = 107

func newLayout(dir string) (layout, error) {
	if dir == "" {
		return layout{}, fmt.Errorf("--dir is required: the directory that holds everything of this cluster")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return layout{}, fmt.Errorf("--dir %s: %w", dir, err)
	}
	// /proc and mountinfo show resolved paths; the leftover check compares against them.
	if resolved, err := filepath.EvalSymlinks(abs); err == nil {
		abs = resolved
	}
	l := layout{abs}
	if longest := l.criSocket("node-00"); len(longest) > maxUnixPath {
		return layout{}, fmt.Errorf("--dir %s is too long: sockets below it would exceed %d bytes; choose a shorter path", abs, maxUnixPath)
	}
	return l, nil
}

func (l layout) at(parts ...string) string {
	return filepath.Join(append([]string{l.dir}, parts...)...)
}

func (l layout) state() string                      { return l.at("cluster.json") }
func (l layout) marker() string                     { return l.at("csi-cluster.dir") }
func (l layout) pki(name string) string             { return l.at("pki", name) }
func (l layout) caFile() string                     { return l.pki("ca.crt") }
func (l layout) tokenFile(user string) string       { return l.at("tokens", user) }
func (l layout) kubeconfig(user string) string      { return l.at(user + ".kubeconfig") }
func (l layout) proxyKubeconfig(user string) string { return l.at(user + ".proxy.kubeconfig") }
func (l layout) log(component string) string        { return l.at("log", component+".log") }
func (l layout) auditLog() string                   { return l.at("log", "audit.json") }
func (l layout) auditPolicy() string                { return l.at("pki", "audit-policy.yaml") }
func (l layout) etcdData() string                   { return l.at("etcd") }
func (l layout) controlSocket() string              { return l.at("run", "control.sock") }
func (l layout) criSocket(node string) string       { return l.at("run", node+".cri.sock") }
func (l layout) nodeReady(node string) string       { return l.at("run", node+".ready") }

func (l layout) cwd(component string) string { return l.at("tmp", "cwd-"+component) }

// kubeletDir is a node's kubelet root. It lies directly below D because registration sockets live in it and
// socket paths are short.
func (l layout) kubeletDir(node string) string { return l.at(node) }
func (l layout) podLogs(node string) string    { return l.at("log", "pods-"+node) }

// checkOurs refuses a directory that holds something but no cluster, because everything below D is deleted, unmounted
// and killed.
func (l layout) checkOurs() error {
	entries, err := os.ReadDir(l.dir)
	if os.IsNotExist(err) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(l.marker()); err != nil {
		return fmt.Errorf("--dir %s is not empty and was not made by csi-cluster: choose another directory or empty it", l.dir)
	}
	return nil
}

// prepare empties D and creates its directories. Old logs go too: a stale "ready" line would fool whoever reads them.
func (l layout) prepare() error {
	entries, err := os.ReadDir(l.dir)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(l.at(e.Name())); err != nil {
			return err
		}
	}
	for _, sub := range []string{"", "pki", "tokens", "log", "run", "tmp"} {
		if err := os.MkdirAll(l.at(sub), 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(l.marker(), []byte("csi-cluster may delete everything in this directory\n"), 0o644)
}
