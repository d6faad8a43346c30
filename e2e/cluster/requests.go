package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"csi-sidecars/e2e/cluster/audit"
)

// setMark writes a named mark into the audit log and returns once it is there. Every request that was answered before
// is then in the log before the mark, and every later one after it.
func setMark(l layout, name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`).MatchString(name) {
		return fmt.Errorf("mark %q: want 1 to 128 of A-Z a-z 0-9 . _ -", name)
	}
	info, err := os.Stat(l.auditLog())
	if err != nil {
		return fmt.Errorf("the cluster in %s writes no audit log (start it with --audit on): %w", l.dir, err)
	}
	client, err := clientFor(l.kubeconfig(adminUser))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	// A reply reaches its client a moment before its line reaches the log.
	time.Sleep(20 * time.Millisecond)
	if err := askForMark(ctx, client, name); err != nil {
		return err
	}
	for {
		found, err := audit.HasMark(l.auditLog(), info.Size(), name)
		if err != nil || found {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("mark %q did not appear in %s within 30 s", name, l.auditLog())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func askForMark(ctx context.Context, client kubernetes.Interface, name string) error {
	err := client.Discovery().RESTClient().Get().AbsPath(audit.MarkPath + name).Do(ctx).Error()
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("mark %q: the API server answered %v instead of 404", name, err)
	}
	return nil
}

func markMain(args []string) error {
	fs := flag.NewFlagSet("mark", flag.ContinueOnError)
	dir := fs.String("dir", "", "cluster directory")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	l, err := newLayout(*dir)
	if err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return errors.New("usage: mark --dir D NAME")
	}
	return setMark(l, fs.Arg(0))
}

// requestsMain counts API requests from the audit log.
func requestsMain(args []string) error {
	fs := flag.NewFlagSet("requests", flag.ContinueOnError)
	dir := fs.String("dir", "", "cluster directory")
	since := fs.String("since", "", "count from this mark (default: from the start)")
	until := fs.String("until", "", "count to this mark (default: to now)")
	user := fs.String("user", "", "only users that match this regular expression as a whole")
	agent := fs.String("user-agent", "", "only user agents that match this regular expression anywhere")
	byAgent := fs.Bool("by-user-agent", false, "count by user agent too")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	l, err := newLayout(*dir)
	if err != nil {
		return err
	}
	filter := audit.Filter{ByUserAgent: *byAgent}
	if *user != "" {
		if filter.User, err = regexp.Compile("^(?:" + *user + ")$"); err != nil {
			return fmt.Errorf("--user: %w", err)
		}
	}
	if *agent != "" {
		if filter.UserAgent, err = regexp.Compile(*agent); err != nil {
			return fmt.Errorf("--user-agent: %w", err)
		}
	}
	if *until == "" {
		// A mark of our own cuts exactly: without it requests that have been answered could still be missing.
		*until = fmt.Sprintf("now-%d-%d", os.Getpid(), time.Now().UnixNano())
		if err := setMark(l, *until); err != nil {
			return err
		}
	}
	log, err := os.Open(l.auditLog())
	if err != nil {
		return err
	}
	defer log.Close()
	count, err := audit.Count(log, *since, *until, filter)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(count)
}
