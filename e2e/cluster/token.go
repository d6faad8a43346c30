package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// serviceAccountToken asks the API server for a token, creating namespace and ServiceAccount first if told to.
func serviceAccountToken(l layout, namespace, name string, create bool, expiry time.Duration) (string, error) {
	client, err := clientFor(l.kubeconfig(adminUser))
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if create {
		if err := createServiceAccount(ctx, client, namespace, name); err != nil {
			return "", err
		}
	}
	seconds := int64(expiry.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return answer.Status.Token, nil
}

func createServiceAccount(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	sa := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, sa, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

func tokenMain(args []string) error {
	fs := flag.NewFlagSet("token", flag.ContinueOnError)
	dir := fs.String("dir", "", "cluster directory")
	namespace := fs.String("namespace", "default", "namespace")
	name := fs.String("serviceaccount", "", "ServiceAccount")
	create := fs.Bool("create", false, "create namespace and ServiceAccount if they do not exist")
	expiry := fs.Duration("expiry", 24*time.Hour, "lifetime (the API server grants at least 10 minutes)")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	l, err := newLayout(*dir)
	if err != nil {
		return err
	}
	token, err := serviceAccountToken(l, *namespace, *name, *create, *expiry)
	if err != nil {
		return err
	}
	fmt.Println(token)
	return nil
}

func kubeconfigMain(args []string) error {
	fs := flag.NewFlagSet("kubeconfig", flag.ContinueOnError)
	dir := fs.String("dir", "", "cluster directory")
	account := fs.String("serviceaccount", "", "NAMESPACE/NAME")
	create := fs.Bool("create", false, "create namespace and ServiceAccount if they do not exist")
	proxy := fs.Bool("proxy", false, "go through the fault proxy")
	expiry := fs.Duration("expiry", 24*time.Hour, "lifetime of the token")
	output := fs.String("o", "", "file to write (required)")
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	l, err := newLayout(*dir)
	if err != nil {
		return err
	}
	namespace, name, ok := strings.Cut(*account, "/")
	if !ok || *output == "" {
		return fmt.Errorf("usage: kubeconfig --dir D --serviceaccount NAMESPACE/NAME [--create] [--proxy] -o FILE")
	}
	state, err := readState(l)
	if err != nil {
		return err
	}
	server := state.APIServer
	if *proxy {
		if server = state.Proxy; server == "" {
			return fmt.Errorf("the cluster in %s runs without the fault proxy (start it with --proxy on)", l.dir)
		}
	}
	token, err := serviceAccountToken(l, namespace, name, *create, *expiry)
	if err != nil {
		return err
	}
	return writeKubeconfig(*output, server, l.caFile(), name, credential{token: token})
}
