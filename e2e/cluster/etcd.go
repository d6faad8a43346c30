package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// etcdMain runs a one-member store. It gives durability up for speed: the data lives as long as the cluster.
func etcdMain(args []string) error {
	fs := flag.NewFlagSet("etcd", flag.ContinueOnError)
	dir := fs.String("data-dir", "", "data directory")
	client := fs.String("client-url", "", "URL clients use")
	peer := fs.String("peer-url", "", "URL of the (only) peer")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	clientURL, err := url.Parse(*client)
	if err != nil {
		return fmt.Errorf("--client-url: %w", err)
	}
	peerURL, err := url.Parse(*peer)
	if err != nil {
		return fmt.Errorf("--peer-url: %w", err)
	}

	cfg := embed.NewConfig()
	cfg.Dir = *dir
	cfg.LogLevel = "warn"
	cfg.UnsafeNoFsync = true
	// A single member elects itself; short ticks only shorten the start.
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*clientURL}, []url.URL{*clientURL}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peerURL}, []url.URL{*peerURL}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)

	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		return err
	case <-time.After(30 * time.Second):
		return fmt.Errorf("not ready after 30 s")
	}
	select {
	case err := <-e.Err():
		return err
	case <-stop:
		return nil
	}
}
