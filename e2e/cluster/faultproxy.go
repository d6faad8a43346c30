package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"net/http"
	"net/url"

	"csi-sidecars/e2e/cluster/fault"
)

// faultProxyMain runs the fault proxy until it is killed.
func faultProxyMain(args []string) error {
	fs := flag.NewFlagSet("fault-proxy", flag.ContinueOnError)
	listen := fs.String("listen", "127.0.0.1:0", "address for clients (TLS)")
	control := fs.String("control", "127.0.0.1:0", "address of the control interface (plain HTTP)")
	target := fs.String("target", "", "URL of the API server")
	caFile := fs.String("ca-file", "", "authority of the API server")
	certFile := fs.String("cert-file", "", "serving certificate")
	keyFile := fs.String("key-file", "", "its key")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	server, err := url.Parse(*target)
	if err != nil || server.Host == "" {
		return fmt.Errorf("--target %q: want https://HOST:PORT", *target)
	}
	pool, err := certPool(*caFile)
	if err != nil {
		return err
	}
	p := fault.New(server, &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool},
		ForceAttemptHTTP2: true,
		// The client decides about compression; bytes are passed on as they are.
		DisableCompression: true,
	})
	failed := make(chan error, 2)
	go func() { failed <- http.ListenAndServe(*control, p.Control()) }()
	go func() { failed <- p.Server(*listen).ListenAndServeTLS(*certFile, *keyFile) }()
	return <-failed
}
