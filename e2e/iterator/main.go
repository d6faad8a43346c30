// iterate asks csi-snapshot-metadata for the ranges of a snapshot with upstream's own client library, which finds the
// service by the cluster's objects and makes itself a token, and writes them as a list in JSON. With two devices it does
// what Kubernetes' tests do instead: it copies these ranges, and fails unless both devices then have the same content.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/kubernetes-csi/external-snapshot-metadata/pkg/iterator"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file with the way to the API server")
	namespace := flag.String("namespace", "default", "namespace of snapshots and of the service account")
	snapshot := flag.String("snapshot", "", "VolumeSnapshot")
	previous := flag.String("previous", "", "VolumeSnapshot since which ranges have changed; empty: all allocated ranges")
	account := flag.String("account", "", "ServiceAccount")
	most := flag.Int("max", 0, "most ranges in a message")
	offset := flag.Int64("offset", 0, "first byte of interest")
	source := flag.String("source", "", "device with the content of the snapshot")
	target := flag.String("target", "", "device with the content of the earlier snapshot, or an empty one")
	flag.Parse()
	if err := iterate(*kubeconfig, *source, *target, iterator.Args{
		Namespace:        *namespace,
		SnapshotName:     *snapshot,
		PrevSnapshotName: *previous,
		SANamespace:      *namespace,
		SAName:           *account,
		MaxResults:       int32(*most),
		StartingOffset:   *offset,
	}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func iterate(kubeconfig, source, target string, args iterator.Args) error {
	args.Emitter = &iterator.JSONEmitter{Writer: os.Stdout}
	if source != "" || target != "" {
		from, err := os.Open(source)
		if err != nil {
			return err
		}
		defer from.Close()
		to, err := os.OpenFile(target, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer to.Close()
		args.Emitter = &iterator.VerifierEmitter{SourceDevice: from, TargetDevice: to}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	// The tests' model of an API server knows nothing else.
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	if args.Clients, err = iterator.BuildClients(config); err != nil {
		return err
	}
	return iterator.GetSnapshotMetadata(context.Background(), args)
}
