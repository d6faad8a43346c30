package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"

	testingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"
)

// embeddedRoot is where upstream keeps the manifests that its test packages embed.
const embeddedRoot = "test/e2e/testing-manifests"

// manifestsMain lists and prints files of the pinned Kubernetes module: its embedded test manifests, and, from the Go
// module cache, anything else of it (the snapshot CRDs). They are read in place, so they are always the pinned ones.
func manifestsMain(args []string) error {
	if len(args) == 0 || (args[0] == "cat" && len(args) < 2) || len(args) > 2 && args[0] != "cat" {
		return errors.New("usage: manifests list [FOLDER] | manifests cat FILE...")
	}
	switch args[0] {
	case "list":
		folder := ""
		if len(args) == 2 {
			folder = args[1]
		}
		return listManifests(folder)
	case "cat":
		for i, name := range args[1:] {
			text, err := readManifest(name)
			if err != nil {
				return err
			}
			if i > 0 {
				fmt.Println("---")
			}
			fmt.Println(strings.TrimRight(string(text), "\n"))
		}
		return nil
	}
	return fmt.Errorf("unknown word %q: want list or cat", args[0])
}

// pinnedTree opens the file system that holds name, and name within it.
func pinnedTree(name string) (fs.FS, string, error) {
	name = strings.Trim(path.Clean(name), "/")
	embedded := testingmanifests.GetE2ETestingManifestsFS().EmbeddedFS
	short := strings.TrimPrefix(strings.TrimPrefix(name, embeddedRoot), "/")
	if short == "" {
		short = "."
	}
	if _, err := fs.Stat(embedded, short); err == nil {
		return embedded, short, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, "", err
	}
	tree := os.DirFS(root)
	if _, err := fs.Stat(tree, name); err != nil {
		return nil, "", fmt.Errorf("%s is neither among the embedded manifests (csi-cluster manifests list) nor in %s", name, root)
	}
	return tree, name, nil
}

func listManifests(folder string) error {
	tree, start, err := pinnedTree(folder)
	if err != nil {
		return err
	}
	return fs.WalkDir(tree, start, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			fmt.Println(name)
		}
		return err
	})
}

func readManifest(name string) ([]byte, error) {
	tree, inside, err := pinnedTree(name)
	if err != nil {
		return nil, err
	}
	return fs.ReadFile(tree, inside)
}

// moduleRoot finds the pinned module in the Go module cache that it was built from.
func moduleRoot() (string, error) {
	const module = "k8s.io/kubernetes"
	version := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == module {
				version = dep.Version
			}
		}
	}
	if version == "" {
		return "", fmt.Errorf("this binary does not say which %s it was built with", module)
	}
	for _, cache := range moduleCaches() {
		dir := filepath.Join(cache, module+"@"+version)
		if _, err := os.Stat(dir); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%s %s is not in the Go module cache (looked in %s); set GOMODCACHE or run: go mod download",
		module, version, strings.Join(moduleCaches(), ", "))
}

func moduleCaches() []string {
	var out []string
	if dir := os.Getenv("GOMODCACHE"); dir != "" {
		out = append(out, dir)
	}
	if raw, err := exec.Command("go", "env", "GOMODCACHE").Output(); err == nil {
		out = append(out, strings.TrimSpace(string(raw)))
	}
	if home, err := os.UserHomeDir(); err == nil {
		out = append(out, filepath.Join(home, "go", "pkg", "mod"))
	}
	return out
}
