package main

import (
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupName is the control group that holds the containers of a real node, the same for the same directory.
func cgroupName(dir string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(dir))
	return fmt.Sprintf("csi-cluster-%x", h.Sum64())
}

// cgroupDirs lists the group and everything below it in all hierarchies, innermost first.
func cgroupDirs(name string) []string {
	var dirs []string
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		tops, _ := filepath.Glob(pattern + name)
		for _, top := range tops {
			_ = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(dirs)))
	return dirs
}

// cgroupProcesses lists the processes of the group.
func cgroupProcesses(name string) []int {
	seen := map[int]bool{}
	for _, dir := range cgroupDirs(name) {
		raw, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for _, line := range strings.Fields(string(raw)) {
			// A process of another pid namespace shows as 0.
			if pid, err := strconv.Atoi(line); err == nil && pid > 1 {
				seen[pid] = true
			}
		}
	}
	var pids []int
	for pid := range seen {
		pids = append(pids, pid)
	}
	return pids
}

// removeCgroups removes the group, and names what cannot be removed because processes are still in it.
func removeCgroups(name string) []string {
	var left []string
	for _, dir := range cgroupDirs(name) {
		if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
			left = append(left, fmt.Sprintf("cgroup %s (%v)", dir, err))
		}
	}
	return left
}
