package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is one that belongs to a cluster.
type process struct {
	pid        int
	name, node string
}

// clusterProcesses finds processes by the mark in their environment and, because a driver may start children with an
// environment of their own, everything else in the mount namespaces of the cluster's nodes.
func clusterProcesses(l layout) []process {
	ours, _ := os.Readlink("/proc/self/ns/mnt")
	namespaces := map[string]string{}
	var marked, unmarked []process
	for _, pid := range allPIDs() {
		env := environment(pid)
		p := process{pid: pid, name: commandName(pid), node: env[envNode]}
		if env[envDir] != l.dir {
			unmarked = append(unmarked, p)
			continue
		}
		marked = append(marked, p)
		if ns := mountNamespace(pid); p.node != "" && ns != "" && ns != ours {
			namespaces[ns] = p.node
		}
	}
	for _, p := range unmarked {
		if node, ok := namespaces[mountNamespace(p.pid)]; ok {
			p.node = node
			marked = append(marked, p)
		}
	}
	return marked
}

func allPIDs() []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func environment(pid int) map[string]string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	out := map[string]string{}
	for _, pair := range bytes.Split(raw, []byte{0}) {
		if key, value, ok := strings.Cut(string(pair), "="); ok {
			out[key] = value
		}
	}
	return out
}

func mountNamespace(pid int) string {
	ns, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	return ns
}

// commandName is the program and its first argument: enough to recognise it, too little to show a secret.
func commandName(pid int) string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	parts := strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00")
	if len(parts) > 2 {
		parts = parts[:2]
	}
	return fmt.Sprintf("%s (pid %d)", strings.Join(parts, " "), pid)
}

// killProcesses ends the chosen processes of the cluster (nil: all), and returns what it ended. It repeats, because a
// process may fork between the look and the kill.
func killProcesses(l layout, chosen func(process) bool) []process {
	ended := map[int]process{}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		alive := 0
		for _, p := range clusterProcesses(l) {
			if chosen != nil && !chosen(p) {
				continue
			}
			alive++
			ended[p.pid] = p
			_ = unix.Kill(p.pid, unix.SIGKILL)
		}
		if alive == 0 {
			break
		}
	}
	var out []process
	for _, p := range ended {
		out = append(out, p)
	}
	return out
}

// loopsBelow returns the loop devices whose backing file lies below dir, by path or, when the mount namespace that
// gave it its path is gone, by inode; and the devices stacked on those.
func loopsBelow(dir string) []string {
	devices, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	inodes := regularFiles(dir)
	found := map[string]bool{}
	for changed := true; changed; {
		changed = false
		for _, attribute := range devices {
			device := "/dev/" + strings.Split(attribute, "/")[3]
			raw, err := os.ReadFile(attribute)
			if err != nil || found[device] {
				continue
			}
			file := strings.TrimSuffix(strings.TrimSpace(string(raw)), " (deleted)")
			if strings.HasPrefix(file, dir+"/") || found[file] || inodes[loopBacking(device)] {
				found[device], changed = true, true
			}
		}
	}
	var out []string
	for device := range found {
		out = append(out, device)
	}
	return out
}

type inode struct{ device, number uint64 }

func regularFiles(dir string) map[inode]bool {
	out := map[inode]bool{}
	_ = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			var st unix.Stat_t
			if unix.Lstat(path, &st) == nil {
				out[inode{st.Dev, st.Ino}] = true
			}
		}
		return nil
	})
	return out
}

func loopBacking(device string) inode {
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return inode{}
	}
	defer unix.Close(fd)
	info, err := unix.IoctlLoopGetStatus64(fd)
	if err != nil {
		return inode{}
	}
	return inode{info.Device, info.Inode}
}

// detachLoops detaches loop devices below dir; one that is still mounted goes when its mount namespace does.
func detachLoops(dir string) {
	for _, device := range loopsBelow(dir) {
		fd, err := unix.Open(device, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		_ = unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0)
		unix.Close(fd)
	}
}

// mountsBelow lists mounts below D in our own mount namespace, innermost first.
func mountsBelow(l layout) []string {
	raw, _ := os.ReadFile("/proc/self/mountinfo")
	var out []string
	for _, line := range strings.Split(string(raw), "\n") {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(unescapeMount(fields[4]), l.dir+"/") {
			out = append([]string{unescapeMount(fields[4])}, out...)
		}
	}
	return out
}

// unescapeMount undoes the octal escapes of mountinfo.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// sweep removes processes, mounts and loop devices of a cluster and names what it could not remove.
func sweep(l layout) []string {
	killProcesses(l, nil)
	for _, path := range mountsBelow(l) {
		_ = unix.Unmount(path, unix.MNT_DETACH)
	}
	var left []string
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left = nil
		detachLoops(l.dir)
		for _, p := range clusterProcesses(l) {
			left = append(left, "process "+p.name)
		}
		for _, path := range mountsBelow(l) {
			left = append(left, "mount "+path)
		}
		for _, device := range loopsBelow(l.dir) {
			left = append(left, "loop device "+device)
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}
